/* SPDX-License-Identifier: MIT */
/*
 * stats.h - what a process lists and opens of datasets, for SHARD_STATS: noted in its log (log.h).
 *
 * Nothing is done while SHARD_STATS is not set. There are no locks, no process waits for another,
 * and errno is kept. The open of a file of a dataset allocates memory.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapter/api.h"
#include "stats/log.h"

struct shard_listing;

enum { SHARD_STATS_UNKNOWN, SHARD_STATS_OFF, SHARD_STATS_ON };
extern atomic_int shard_stats_state __attribute__((visibility("hidden")));

static inline bool shard_stats_on(void) {
  return atomic_load_explicit(&shard_stats_state, memory_order_acquire) == SHARD_STATS_ON;
}

/* Read the variables; to be called after shard_config_init(). Opens no file. */
void shard_stats_init(void);

/* Note that fd was opened by openat(dirfd, path, flags), if it is a file of a dataset. */
void shard_stats_opened(int fd, int dirfd, const char *path, int flags);

/* Returns the number of a dataset of SHARD_DATASET, by its path or URL there; -1: none. */
int shard_stats_find(const char *item);

/* Note how this process comes to a dataset's names from now on. */
struct shard_stats_share {
  enum shard_log_how how;
  uint32_t rank, size;
  uint64_t epoch;
  bool shuffled;
  const struct shard_listing *listing; /* NULL: none */
};
void shard_stats_share(int dataset, const struct shard_stats_share *share);

/* Note that a name was shown to the rank as its own. */
void shard_stats_served(int dataset, uint64_t epoch, const char *name, size_t length);

/* Note that an object was opened. url: s3://bucket/prefix/, as SHARD_DATASET or the program has
 * named it; name: the rest of the key. */
void shard_stats_object(const char *url, const char *name, size_t length);

/* Note that the process is about to end. */
void shard_stats_end(void);
