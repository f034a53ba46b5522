/* SPDX-License-Identifier: MIT */
/*
 * stats.h - what a rank's processes open, for SHARD_STATS.
 *
 * The first process of a rank that loads the library is its main process: it makes the log (log.h)
 * and names it in the environment, by LIBSHARD_STATS, for whatever it starts (keeper.h). If no rank
 * was known then, the first process that lists a dataset is. Nothing is done while SHARD_STATS is
 * not set.
 *
 * There are no locks and no allocations, and errno is kept. All but what tells of passes and
 * listings may be called in a signal handler, and between (v)fork and exec.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libshard.h"

struct shard_listing;

/* APART: there is no rank yet, or it has ended. What this process opens is missing in its
 * statistics, which tell that. */
enum { SHARD_STATS_UNKNOWN, SHARD_STATS_OFF, SHARD_STATS_APART, SHARD_STATS_ON };
extern atomic_int shard_stats_state __attribute__((visibility("hidden")));

static inline bool shard_stats_on(void) {
  return atomic_load_explicit(&shard_stats_state, memory_order_acquire) == SHARD_STATS_ON;
}

/* Whether opens are to be told. */
static inline bool shard_stats_watches(void) {
  return atomic_load_explicit(&shard_stats_state, memory_order_acquire) >= SHARD_STATS_APART;
}

/* After shard_config_init(): join the rank's log, or make it. */
void shard_stats_init(void);

/* fd was opened by openat(dirfd, path, flags): noted if it is a file of a dataset. */
void shard_stats_opened(int fd, int dirfd, const char *path, int flags);

/* Which view the rank has. */
void shard_stats_view(enum shard_view view);

/* For the shard view: the number of a dataset of SHARD_DATASET, for the calls below; -1: none. */
int shard_stats_root(const char *path);
/* The same of one that is a bucket itself, s3://bucket/prefix/. */
int shard_stats_bucket(const char *url);
/* The same if it is known already: of SHARD_DATASET, or listed by a program. */
int shard_stats_find_bucket(const char *url);
/* An object of it was opened. */
void shard_stats_object(int dataset, const char *name, size_t length);
/* The dataset's listing, with so many entries that are its own. */
void shard_stats_listing(int dataset, const struct shard_listing *listing, uint64_t entries);
/* This process reads its names for an epoch as this rank of so many, shuffled or not. */
void shard_stats_pass(int dataset, uint32_t rank, uint32_t size, uint64_t epoch, bool shuffled);
/* It has a listing for the epoch, `own` if it is the rank's alone. */
void shard_stats_list(int dataset, uint64_t epoch, const struct shard_listing *listing, bool own);
/* This name was shown to the rank as its own. */
void shard_stats_served(int dataset, uint64_t epoch, const char *name, size_t length);

/* The epoch that this process reads a dataset in, or, if it does not, the rank. */
uint64_t shard_stats_epoch_now(int dataset);

/* Add the datasets of SHARD_DATASET that are there by now, until all of them have been. */
void shard_stats_find_roots(void);

/* The process is about to end: if it is the main process, write the statistics, once. */
void shard_stats_end(void);
