/* SPDX-License-Identifier: MIT */
/* merge.h - sorted names from a thread that merges them to the thread that writes them. */
#ifndef SHARD_BUILD_MERGE_H
#define SHARD_BUILD_MERGE_H

#include <stddef.h>
#include <stdint.h>

struct shard_sorter;

struct shard_merged {
  char *name; /* not NUL-terminated; may be changed in place */
  uint32_t length;
  uint8_t type;
  uint64_t ino;
};

/*
 * Give all names of a sorter, in order, to `take`, which ends it by a negative errno. A second
 * thread merges meanwhile. 0, or a negative errno and, if merging was at fault, a line in
 * err[size].
 */
int shard_merge(struct shard_sorter *sorter,
                int (*take)(void *context, const struct shard_merged *name), void *context,
                char *err, size_t size);

#endif
