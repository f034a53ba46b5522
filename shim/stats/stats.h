/* SPDX-License-Identifier: MIT */
/*
 * stats.h - notes in the process's log (log.h) which files of datasets the process lists and opens,
 * for SHARD_STATS.
 *
 * The functions do nothing if SHARD_STATS is not set. They take no locks and wait for no other
 * process. All but shard_stats_init() and shard_stats_served() keep errno. Noting an open allocates
 * memory only to add a dataset, to locate a dataset's root (at first, and if the root has changed)
 * and to make the log.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapter/api.h"
#include "stats/log.h"

struct shard_listing;

/* Whether statistics are kept. UNKNOWN until shard_stats_init() is called. */
enum { SHARD_STATS_UNKNOWN, SHARD_STATS_OFF, SHARD_STATS_ON };
extern atomic_int shard_stats_state __attribute__((visibility("hidden")));

/* Returns whether statistics are kept. */
static inline bool shard_stats_on(void) {
  return atomic_load_explicit(&shard_stats_state, memory_order_acquire) == SHARD_STATS_ON;
}

/* Reads the variables. Called after shard_config_init(). Opens no file. */
void shard_stats_init(void);

/* Notes that fd was opened by openat(dirfd, path, flags), if fd is a file of a dataset. */
void shard_stats_opened(int fd, int dirfd, const char *path, int flags);

/*
 * Returns the number of a dataset of SHARD_DATASET; -1: there is none.
 * item: the path or URL in SHARD_DATASET.
 */
int shard_stats_find(const char *item);

/* Which names of a dataset this process gets. */
struct shard_stats_share {
  enum shard_log_how how;
  uint32_t rank, size;
  uint64_t epoch;
  bool shuffled;
  const struct shard_listing *listing; /* NULL: no listing */
};

/*
 * Notes which names of a dataset this process gets from now on.
 * dataset: a number of shard_stats_find(); -1: nothing is done.
 */
void shard_stats_share(int dataset, const struct shard_stats_share *share);

/*
 * Notes that name[length] was shown to the rank as its own.
 * dataset: a number of shard_stats_find(); -1: nothing is done.
 */
void shard_stats_served(int dataset, uint64_t epoch, const char *name, size_t length);

/*
 * Notes that an object was opened, unless the key ends in a slash.
 * url: s3://bucket/prefix/, as SHARD_DATASET or the program has named the dataset.
 * name: name[length] is the rest of the key.
 */
void shard_stats_object(const char *url, const char *name, size_t length);

/* Notes that the process is about to end. */
void shard_stats_end(void);
