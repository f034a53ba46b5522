/* SPDX-License-Identifier: MIT */
/*
 * datasets.h - the datasets of SHARD_DATASET, set up once, and the rank that this process is.
 *
 * Thread-safe, fork-proof (once.h). Nothing is ever freed.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/place.h"
#include "libshard.h"
#include "listing/options.h"
#include "view/once.h"
#include "view/serve.h"

struct shard_edition; /* loading.c's */

struct shard_view_dataset {
  const char *path;
  const char *url;       /* the s3:// prefix it stands for; NULL: none */
  _Atomic int64_t epoch; /* in which this process, or its parent, read the root last */
  atomic_uint sizes;     /* choose.c's: which sizes of directories were seen */
  /* What loading.c fills in. */
  atomic_int state; /* a slot (once.h) for what follows */
  struct shard_listing *listing;
  bool told;          /* an error that a later call may not meet was printed */
  int error;          /* why there is no listing; a negative errno, printed */
  atomic_int opening; /* a slot for a new edition; never READY */
  _Atomic(struct shard_edition *) editions;
};

/* All of them, and what holds for each. */
struct shard_datasets {
  struct shard_view_dataset *items;
  struct shard_place_root *roots; /* of the datasets */
  size_t count;
  struct shard_options options;
  bool is_manifest, per_rank, per_epoch; /* SHARD_LISTING: a manifest; with %r; with %e */
  int error;                             /* why no dataset can be served, or 0; negative errno */
  char fault[500]; /* the same for people, to be said once a dataset is listed; or "" */
};

extern struct shard_datasets shard_datasets_all __attribute__((visibility("hidden")));
extern atomic_int shard_datasets_state __attribute__((visibility("hidden"))); /* a slot for it */

/* See shard_datasets_get(). */
const struct shard_datasets *shard_datasets_set_up(void);

/*
 * The set-up, made by the first call. NULL: there is no memory for it; the next call tries again.
 * Inline: it is called for every directory that is read.
 */
static inline const struct shard_datasets *shard_datasets_get(void) {
  bool ready =
      atomic_load_explicit(&shard_datasets_state, memory_order_acquire) == SHARD_ONCE_READY;
  return ready ? &shard_datasets_all : shard_datasets_set_up();
}

/*
 * The epoch in which a directory of the dataset is read. begins: it is the root, from its
 * beginning; then SHARD_EPOCH tells, as the program has set it by now. Else that in which the root
 * was read last; before that, too, SHARD_EPOCH tells. 0, or -EINVAL and a line.
 */
int shard_datasets_find_epoch(struct shard_view_dataset *d, bool begins, int64_t *epoch);

/* Which share this process has. */
struct shard_datasets_rank {
  uint32_t rank, size;
  int local_rank; /* -1: not known */
};

/*
 * Find out which, at the first call that needs it: a program may set RANK itself before that. From
 * then on it is settled, for children that are forked, too: where the variables tell another rank,
 * this fails. Variables that are gone do not matter. 0, or -EINVAL and a line in err[size].
 */
int shard_datasets_find_rank(char *err, size_t size);

/* Print a warning, in printf(3)'s way, unless a process of the job has printed one of this kind. */
__attribute__((format(printf, 2, 3))) void shard_datasets_say_once(const char *kind,
                                                                   const char *format, ...);

/* What was found. */
struct shard_datasets_rank shard_datasets_get_rank(void);
