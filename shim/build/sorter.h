/* SPDX-License-Identifier: MIT */
/*
 * sorter.h - any number of names brought into order, in a set amount of memory (shardctl only).
 *
 * Threads fill batches through feeders; threads of the sorter sort them meanwhile, and code each as
 * a run. Runs stay in memory while there is room, the oldest then go to disk. At the end all runs
 * are merged. (External merge sort: Knuth, TAOCP 3, 5.4.)
 *
 * Stable: names that the order takes for equal come out as they came in, as far as they came
 * through one feeder.
 *
 * Memory: one mapping of the size given, made at the start, from which batches, runs, what sorting
 * needs and what merging needs are cut; pages are touched as they are needed. There is nothing
 * else, but some 50 bytes for each run, and one name. (A mapping and not an arena of an
 * allocator: its size is the bound, with no other proof.)
 */
#ifndef SHARD_BUILD_SORTER_H
#define SHARD_BUILD_SORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "build/batch.h"
#include "build/run.h"

struct shard_sorter;

/*
 * order: PATH or BASENAME of codec.h. memory: bytes for everything the sorter holds, at least 1 MB.
 * folders: NULL-ended, where runs may be put, in order of preference; those in memory (tmpfs) are
 * passed over. It must live as long as the sorter. NULL: no memory.
 */
struct shard_sorter *shard_sorter_new(uint32_t order, bool attributes, size_t memory,
                                      const char *const *folders);
void shard_sorter_free(struct shard_sorter *s);

/*
 * Give names to `emit` at once, from a thread of the sorter, as long as they come in order through
 * one feeder. It returns 0, or 1 if a name is out of order: then, or if the sorter notices first,
 * no more are given. keep: all names are kept besides, to be merged then. Without keep the feeder
 * fails by -ERESTART: feed them to another sorter. Call it before anything is fed.
 */
void shard_sorter_direct(struct shard_sorter *s, shard_run_emit *emit, void *context, bool keep);

/* All feeders have ended: 1 if all names were given by then, 0 if not; or negative errno. */
int shard_sorter_direct_end(struct shard_sorter *s);

/* One thread's way in; at most four. */
struct shard_feeder {
  struct shard_sorter *sorter;
  struct shard_batch *batch;
};

/* The same, when the batch is full or there is none. */
int shard_sorter_feed_more(struct shard_feeder *f, const char *name, size_t length, uint64_t ino,
                           uint8_t type);

/* Add a name of at most SHARD_NAME_MAX - 1 bytes. 0 or negative errno. */
static inline int shard_sorter_feed(struct shard_feeder *f, const char *name, size_t length,
                                    uint64_t ino, uint8_t type) {
  return f->batch && shard_batch_add(f->batch, name, length, ino, type)
             ? 0
             : shard_sorter_feed_more(f, name, length, ino, type);
}

/* No more from this feeder. 0 or negative errno. */
int shard_sorter_end_feed(struct shard_feeder *f);

/* Names added by feeders that have ended. */
uint64_t shard_sorter_count(const struct shard_sorter *s);

/*
 * Give all names, in order, duplicates too, to `emit`, which ends the merge by a negative
 * errno. All feeders have ended. 0 or negative errno.
 */
int shard_sorter_merge(struct shard_sorter *s, shard_run_emit *emit, void *context);

/* What went wrong, for people; "" if nothing. */
const char *shard_sorter_error(const struct shard_sorter *s);

#endif
