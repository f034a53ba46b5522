/* SPDX-License-Identifier: MIT */
/*
 * sorter.h - sorts any number of names in a fixed amount of memory (shardctl only).
 *
 * The caller's threads fill batches through feeders. Meanwhile the sorter's threads sort the
 * batches, and code each batch as a run. Runs stay in memory while there is room; then the oldest
 * runs go to disk. At the end all runs are merged. (External merge sort: Knuth, TAOCP 3, 5.4.)
 *
 * Names that came through one feeder are sorted stably: names that the order takes for equal come
 * out as they came in.
 *
 * Memory: one mapping of the given size, and 2 MB more for its alignment, made at the start.
 * Batches, runs, and what sorting and merging need are cut from the mapping; pages are touched when
 * the sorter needs them. Apart from the mapping the sorter allocates some 50 bytes for each run,
 * and one name. (A mapping and not an allocator's arena: the mapping's size alone proves the
 * bound.)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "build/batch.h"
#include "build/run.h"

struct shard_sorter;

/*
 * Creates a sorter, which the caller frees by shard_sorter_free().
 * order: PATH or BASENAME of listing/codec.h.
 * attributes: whether the sorter keeps inodes and types.
 * memory: bytes for all that the sorter holds, at least 1 MB.
 * folders: where runs may be put, in order of preference, ended by NULL; the array must live as
 * long as the sorter. Folders in memory (tmpfs) are skipped.
 * Returns NULL if there is no memory.
 */
struct shard_sorter *shard_sorter_new(uint32_t order, bool attributes, size_t memory,
                                      const char *const *folders);

/* Ends the sorter's threads and frees the sorter, or NULL. */
void shard_sorter_free(struct shard_sorter *s);

/*
 * A feeder, which one thread feeds names through. A sorter has four at most. At first only `sorter`
 * is set.
 */
struct shard_feeder {
  struct shard_sorter *sorter;
  struct shard_batch *batch;
};

/* Adds a name as shard_sorter_feed() does, where the batch is full or there is none yet. */
int shard_sorter_feed_more(struct shard_feeder *f, const char *name, size_t length, uint64_t ino,
                           uint8_t type);

/*
 * Adds a copy of a name of at most SHARD_NAME_MAX - 1 bytes.
 * Errors: the sorter's first error.
 */
static inline int shard_sorter_feed(struct shard_feeder *f, const char *name, size_t length,
                                    uint64_t ino, uint8_t type) {
  return f->batch && shard_batch_add(f->batch, name, length, ino, type)
             ? 0
             : shard_sorter_feed_more(f, name, length, ino, type);
}

/*
 * Ends a feeder, which then has no more names.
 * Errors: the sorter's first error.
 */
int shard_sorter_end_feed(struct shard_feeder *f);

/* Returns how many names were added, when all feeders have ended. */
uint64_t shard_sorter_count(const struct shard_sorter *s);

/*
 * Gives all names to `emit` in order, repeated names too, in the calling thread. Called once, when
 * all feeders have ended.
 * emit: a negative errno ends the merge, and is returned.
 * Errors: the sorter's first error.
 */
int shard_sorter_merge(struct shard_sorter *s, shard_run_emit *emit, void *context);

/*
 * Returns the message of the sorter's first error, "" if there is none. Lives as long as the
 * sorter.
 */
const char *shard_sorter_error(const struct shard_sorter *s);
