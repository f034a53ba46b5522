/* SPDX-License-Identifier: MIT */
/*
 * sets.h - finds out whether nearly all files come in sets of one stem, such as images with their
 * captions (shardctl only): most stems have the same two or more endings, files of stems with two
 * or more endings are nine of ten, and there are at most 16 endings. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct shard_sets;

/* NULL: no memory. To be freed by free(3). */
struct shard_sets *shard_sets_new(void);

/* Note a name; names come in the order of paths, in which a stem's files nearly always lie
 * together. */
void shard_sets_add(struct shard_sets *sets, const char *name, size_t length);

/* Note a name that differs from the last one in the number name[begin] to name[end - 1] only.
 * false: nothing was noted; it goes to shard_sets_add(). */
bool shard_sets_count(struct shard_sets *sets, const char *name, size_t begin, size_t end);

/* All names were noted: whether they come in sets. */
bool shard_sets_found(struct shard_sets *sets);
