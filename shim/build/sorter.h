/* SPDX-License-Identifier: MIT */
/*
 * sorter.h - sorts any number of names in a set amount of memory (shardctl only).
 *
 * Threads fill batches through feeders. Meanwhile threads of the sorter sort batches, and code each
 * as a run. Runs stay in memory while there is room; then the oldest go to disk. At the end all
 * runs are merged. (External merge sort: Knuth, TAOCP 3, 5.4.)
 *
 * Stable for names that came through one feeder: if the order takes them for equal, they come out
 * as they came in.
 *
 * Memory: one mapping of the given size, made at the start. Batches, runs, and what sorting and
 * merging need are cut from it; pages are touched as they are needed. Besides there are some 50
 * bytes for each run, and one name. (A mapping and not an allocator's arena: its size alone proves
 * the bound.)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "build/batch.h"
#include "build/run.h"

struct shard_sorter;

/*
 * order: PATH or BASENAME of codec.h. memory: bytes for all that the sorter holds, at least 1 MB.
 * folders: where runs may be put, in order of preference, NULL-ended; folders in memory (tmpfs) are
 * skipped. The array must live as long as the sorter. Returns NULL if there is no memory.
 */
struct shard_sorter *shard_sorter_new(uint32_t order, bool attributes, size_t memory,
                                      const char *const *folders);

/* End the threads and free. NULL is allowed. */
void shard_sorter_free(struct shard_sorter *s);

/* What one thread feeds names through; at most four for a sorter. At first only `sorter` is set. */
struct shard_feeder {
  struct shard_sorter *sorter;
  struct shard_batch *batch;
};

/* shard_sorter_feed() where the batch is full, or there is none yet. */
int shard_sorter_feed_more(struct shard_feeder *f, const char *name, size_t length, uint64_t ino,
                           uint8_t type);

/* Add a copy of a name, at most SHARD_NAME_MAX - 1 bytes. 0, or the sorter's negative errno. */
static inline int shard_sorter_feed(struct shard_feeder *f, const char *name, size_t length,
                                    uint64_t ino, uint8_t type) {
  return f->batch && shard_batch_add(f->batch, name, length, ino, type)
             ? 0
             : shard_sorter_feed_more(f, name, length, ino, type);
}

/* End a feeder: it has no more names. 0, or the sorter's negative errno. */
int shard_sorter_end_feed(struct shard_feeder *f);

/* Names added by feeders that have ended. */
uint64_t shard_sorter_count(const struct shard_sorter *s);

/*
 * Give all names, duplicates too, to `emit` in order, in the calling thread. A negative errno of
 * `emit` ends the merge and is returned. Call it once, after all feeders have ended. 0 or negative
 * errno.
 */
int shard_sorter_merge(struct shard_sorter *s, shard_run_emit *emit, void *context);

/* What went wrong, for people; "" if nothing. Lives as long as the sorter. */
const char *shard_sorter_error(const struct shard_sorter *s);
