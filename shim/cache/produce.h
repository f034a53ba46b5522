/* SPDX-License-Identifier: MIT */
/* produce.h - shardctl at work for an entry of the cache, under the entry's lock. */
#ifndef SHARD_CACHE_PRODUCE_H
#define SHARD_CACHE_PRODUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/builder.h"

struct shard_entry;
struct shard_found;

/* For a shardctl that waits, or whose bucket is silent, to say why it was in vain. */
#define SHARD_PRODUCE_GRACE_MS 5000

struct shard_production {
  const struct shard_entry *entry;
  int lock;            /* the entry's; a descriptor */
  int64_t deadline;    /* ms of the monotonic clock */
  const char *object;  /* the object that SHARD_LISTING names, which is to be shared; NULL: none */
  const char *seconds; /* text: how long to wait for rank 0 to put it there; NULL: make it here */
  const char *watched; /* a job: shardctl is not needed once this has a listing; NULL: none */
  bool needless;       /* result: it was not needed any more */
  struct shard_builder builder; /* its last words */
};

/*
 * All run shardctl to its end, a second time if it is killed by a signal, and remove leftovers
 * before it and after one that failed. 0, or a negative errno and a line in err[size]; -ETIMEDOUT.
 */

/* The listing, or what rank 0 puts (seconds), becomes `file`. */
int shard_produce_index(struct shard_production *p, const char *file, char *err, size_t size);

/*
 * Make the listing of an entry, and put it into the cache: *found is it. lock, deadline, object: as
 * above.
 */
int shard_produce_listing(const struct shard_entry *e, int lock, int64_t deadline,
                          const char *object, struct shard_found *found, char *err, size_t size);

/* The wanted object becomes `file`. */
int shard_produce_object(struct shard_production *p, const char *file, char *err, size_t size);

/* A bucket in parts, which begin with `base`: there is a first one. */
int shard_produce_stream(struct shard_production *p, const char *base, char *err, size_t size);

/* -EIO, and what shardctl has said last, in err[size]. */
int shard_produce_failed(const struct shard_production *p, char *err, size_t size);

#endif
