/* SPDX-License-Identifier: MIT */
/* merge.h - hands sorted names from a thread that merges to the one that writes (shardctl only). */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct shard_sorter;

/* Takes a name, not NUL-terminated, that lives until it returns; it may change it in place. */
typedef int shard_merge_take(void *context, char *name, size_t length, uint64_t ino, uint8_t type);

/*
 * Call `take` for each name of a sorter, in order, in the calling thread; a second thread merges
 * meanwhile. A negative errno of `take` ends the merge, and is returned. If the sorter fails, its
 * negative errno is returned, and err[size] has a line.
 */
int shard_merge(struct shard_sorter *sorter, shard_merge_take *take, void *context, char *err,
                size_t size);
