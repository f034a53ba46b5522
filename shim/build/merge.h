/* SPDX-License-Identifier: MIT */
/*
 * merge.h - hands sorted names from a thread that merges to the thread that writes (shardctl only).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct shard_sorter;

/*
 * Takes a name, which does not end with NUL and lives until the function returns. The function may
 * change the name in place. A negative errno ends the merge.
 */
typedef int shard_merge_take(void *context, char *name, size_t length, uint64_t ino, uint8_t type);

/*
 * Calls `take` for each name of a sorter, in order, in the calling thread. A second thread merges
 * meanwhile; if no thread can be started, the calling thread merges, too.
 * Errors: of `take`, and -ENOMEM, without a line in err[size]; of the sorter, with a line.
 */
int shard_merge(struct shard_sorter *sorter, shard_merge_take *take, void *context, char *err,
                size_t size);
