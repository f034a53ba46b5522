/* SPDX-License-Identifier: MIT */
/*
 * first.h - SHARD_LISTING_BUILD=first: rank 0's node makes the listing that SHARD_LISTING names, if
 * there is no true one; the others take a copy. So all processes of the job have one, though the
 * directory changes meanwhile.
 *
 *   a file     rank 0 puts it there; each process of the other nodes looks for it
 *   an object  rank 0's shardctl puts it; of each other node one process waits, by a shardctl that
 *              asks for it. It holds the lock of a KEY of its own: rank 0 of its node may need the
 *              entry's.
 */
#ifndef SHARD_CACHE_FIRST_H
#define SHARD_CACHE_FIRST_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_entry;
struct shard_found;
struct shard_wanted;
struct shard_listing;

struct shard_first {
  int rank;               /* of this process; -1: nothing is shared, or it is settled */
  bool object;            /* listing is s3://..., for shardctl to look at, to put and to wait for */
  bool strict;            /* a listing there of another dataset is an error */
  char listing[PATH_MAX]; /* what SHARD_LISTING names */
};

/*
 * A listing that need not be built. A job looks once at a bucket, and at what rank 0 has put,
 * whatever earlier jobs saw. job NULL: none is known.
 */
bool shard_first_find_ready(const struct shard_first *f, const struct shard_entry *e,
                            const char *job, struct shard_found *found);

/* What another rank has got while it waited for rank 0. */
struct shard_first_got {
  int lock;                      /* to be released (elect.h) once the rest is taken; -1 */
  struct shard_listing *listing; /* of a file; NULL */
  char *file;                    /* of an object: in the cache, to be installed; NULL */
  bool taken;                    /* another process of the node has put it into the cache */
};

/*
 * Not rank 0: wait. 0, and *got may be empty: then the listing is of another directory, and this
 * node makes its own. Or a negative errno and a line in err[size]. Then, too, _clear() *got.
 */
int shard_first_await(const struct shard_first *f, const struct shard_entry *e, const char *job,
                      struct shard_first_got *got, char *err, size_t size);
void shard_first_clear(struct shard_first_got *got);

/* Put a copy of a listing that was made elsewhere into the cache, under the entry's lock. */
int shard_first_take(const struct shard_entry *e, const struct shard_listing *listing,
                     struct shard_found *found, char *err, size_t size);

/* Rank 0 and a file: use what is there, or make it and put it there. The entry's lock is ours. */
int shard_first_share(const struct shard_first *f, const struct shard_entry *e, int lock,
                      int64_t deadline, struct shard_found *found, char *err, size_t size);

/* What is there is of another dataset, or of other options: 0, or if that is an error -EINVAL and
 * the line. */
int shard_first_refuse(const struct shard_first *f, const struct shard_wanted *wanted, char *err,
                       size_t size);

/* The line for -ETIMEDOUT of the lock, under which another process waits for rank 0. */
int shard_first_timed_out(const struct shard_first *f, const struct shard_entry *e, char *err,
                          size_t size);

#endif
