/* SPDX-License-Identifier: MIT */
/*
 * stats.h - what a process lists and opens of datasets, for SHARD_STATS: noted in its log (log.h).
 *
 * Nothing is done while SHARD_STATS is not set. There are no locks, no process waits for another,
 * and errno is kept. An open may be noted in a signal handler, except that the first one in a
 * process, and the first in a directory, allocate.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libshard.h"
#include "stats/log.h"

struct shard_listing;

enum { SHARD_STATS_UNKNOWN, SHARD_STATS_OFF, SHARD_STATS_ON };
extern atomic_int shard_stats_state __attribute__((visibility("hidden")));

static inline bool shard_stats_on(void) {
  return atomic_load_explicit(&shard_stats_state, memory_order_acquire) == SHARD_STATS_ON;
}

/* After shard_config_init(). Opens no file. */
void shard_stats_init(void);

/* fd was opened by openat(dirfd, path, flags): noted if it is a file of a dataset. */
void shard_stats_opened(int fd, int dirfd, const char *path, int flags);

/* The number of a dataset of SHARD_DATASET, by its path or s3:// URL there; -1: none. */
int shard_stats_find(const char *item);

/* How this process reads a dataset's names from now on. */
struct shard_stats_share {
  enum shard_log_how how;
  uint32_t rank, size;
  uint64_t epoch;
  bool shuffled;
  const struct shard_listing *listing; /* NULL: none */
};
void shard_stats_share(int dataset, const struct shard_stats_share *share);

/* This name was shown to the rank as its own. */
void shard_stats_served(int dataset, uint64_t epoch, const char *name, size_t length);

/* An object below s3://bucket/prefix/, which SHARD_DATASET or the program has named, was opened. */
void shard_stats_object(const char *url, const char *name, size_t length);

/* The process is about to end. */
void shard_stats_end(void);
