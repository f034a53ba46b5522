/* SPDX-License-Identifier: MIT */
/* merge.h - hands sorted names from a thread that merges to the one that writes (shardctl only). */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct shard_sorter;

struct shard_merged {
  char *name; /* not NUL-terminated; lives until `take` returns, which may change it in place */
  uint32_t length;
  uint8_t type;
  uint64_t ino;
};

/*
 * Call `take` for each name of a sorter, in order, in the calling thread; a second thread merges
 * meanwhile. A negative errno of `take` ends the merge, and is returned. If the sorter fails, its
 * negative errno is returned, and err[size] has a line.
 */
int shard_merge(struct shard_sorter *sorter,
                int (*take)(void *context, const struct shard_merged *name), void *context,
                char *err, size_t size);
