/* SPDX-License-Identifier: MIT */
/*
 * sort.h - any number of names brought into order, in a set amount of memory (shardctl only).
 *
 * Threads fill batches through feeders; a thread of the sorter sorts them meanwhile. Sorted batches
 * stay in memory while there is room; then they are merged into a run on disk. At the end runs
 * and batches are merged. Names that come in order make one run, however many they are.
 * (External merge sort: Knuth, TAOCP 3, 5.4.)
 */
#ifndef SHARD_SORT_H
#define SHARD_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_sorter;

/*
 * memory: bytes for everything the sorter holds, at least 1 MB. folders: NULL-ended, where
 * runs may be put, in order of preference; those in memory (tmpfs) are passed over. It must live as
 * long as the sorter. NULL: no memory.
 */
struct shard_sorter *shard_sorter_new(uint32_t order, bool attributes, size_t memory,
                                      const char *const *folders);
void shard_sorter_free(struct shard_sorter *s);

/* One thread's way in; at most four. */
struct shard_feeder {
  struct shard_sorter *sorter;
  struct shard_batch *batch;
};

/* Add a name of at most SHARD_NAME_MAX - 1 bytes. 0 or negative errno. */
int shard_feeder_add(struct shard_feeder *f, const char *name, size_t length, uint64_t ino,
                     uint8_t type);

/* No more from this feeder. 0 or negative errno. */
int shard_feeder_end(struct shard_feeder *f);

/* Names added by feeders that have ended. */
uint64_t shard_sorter_count(const struct shard_sorter *s);

/*
 * Give all names, in order, duplicates too, to `emit`, which ends the merge by a negative
 * errno. All feeders have ended. 0 or negative errno.
 */
int shard_sorter_merge(struct shard_sorter *s,
                       int (*emit)(void *context, const char *name, size_t length, uint64_t ino,
                                   uint8_t type),
                       void *context);

/* What went wrong, for people; "" if nothing. */
const char *shard_sorter_error(const struct shard_sorter *s);

#endif
