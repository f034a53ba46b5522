/* SPDX-License-Identifier: MIT */
/*
 * datasets.h - the datasets of SHARD_DATASET, set up once, and the rank of this process. Nothing is
 * ever freed.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/locate.h"
#include "libshard.h"
#include "listing/options.h"
#include "view/once.h"
#include "view/serve.h"

struct shard_epoch_listing; /* private to load.c */

struct shard_view_dataset {
  const char *path;
  const char *url;        /* the s3:// prefix that `path` stands for; NULL: none */
  _Atomic int64_t epoch;  /* in which this process, or its parent, read the root last */
  atomic_uint seen_sizes; /* prepare.c's: sizes of directories that were seen */
  /* load.c's */
  atomic_int state; /* a slot (once.h) for listing and error */
  struct shard_listing *listing;
  bool reported;         /* an error was printed that a later call may not meet */
  int error;             /* why there is no listing; a negative errno, printed */
  atomic_int epoch_slot; /* a slot in which epoch listings are opened; never READY */
  _Atomic(struct shard_epoch_listing *) epoch_listings;
};

/* All datasets, and what holds for each of them. */
struct shard_datasets {
  struct shard_view_dataset *items;
  struct shard_dataset_root *roots; /* of the items */
  size_t count;
  struct shard_options options;
  bool is_manifest, per_rank, per_epoch; /* SHARD_LISTING: a manifest; with %r; with %e */
  int error;                             /* why no dataset can be served, or 0; negative errno */
  char fault[500]; /* the line about `error`, printed when a dataset is listed; or "" */
};

extern struct shard_datasets shard_datasets_all __attribute__((visibility("hidden")));
extern atomic_int shard_datasets_state __attribute__((visibility("hidden"))); /* its slot */

/* Does the work of the first shard_datasets_get(). */
const struct shard_datasets *shard_datasets_set_up(void);

/*
 * Returns the datasets; the first call sets them up. Inline: called for each directory that is
 * read.
 * Errors: NULL, out of memory; the next call tries again.
 */
static inline const struct shard_datasets *shard_datasets_get(void) {
  bool ready =
      atomic_load_explicit(&shard_datasets_state, memory_order_acquire) == SHARD_ONCE_READY;
  return ready ? &shard_datasets_all : shard_datasets_set_up();
}

/*
 * Finds the epoch in which a directory of the dataset is read.
 * begins: the directory is the root, read from its beginning; then the epoch is the program's
 * present SHARD_EPOCH. Else it is the epoch in which the root was read last, or SHARD_EPOCH if the
 * root was never read.
 * Errors: -EINVAL and a line printed.
 */
int shard_datasets_find_epoch(struct shard_view_dataset *d, bool begins, int64_t *epoch);

/* The share of this process. */
struct shard_datasets_rank {
  uint32_t rank, size;
  int local_rank; /* -1: not known */
};

/*
 * Settles the rank at the first call that needs it, because a program may set RANK itself before
 * that. The rank then stays, also in forked children; if the variables give another rank later, the
 * call fails. Variables that are unset later do not matter.
 * Errors: -EINVAL and a line.
 */
int shard_datasets_find_rank(char *err, size_t size);

/*
 * Prints a warning, from a format of printf(3), once for each kind and job.
 * kind: a word that names the warning.
 */
__attribute__((format(printf, 2, 3))) void shard_datasets_warn_once(const char *kind,
                                                                    const char *format, ...);

/* Returns the rank that shard_datasets_find_rank() has settled. */
struct shard_datasets_rank shard_datasets_get_rank(void);
