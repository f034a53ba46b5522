/* SPDX-License-Identifier: MIT */
/*
 * sets.h - finds out whether nearly all files come in sets, such as images with their captions
 * (shardctl only).
 *
 * A set is the files of a stem (listing/samples.h). Files come in sets if most stems have the same
 * two or more endings, nine of ten files have a stem with two or more endings, and there are at
 * most 16 endings, each shorter than 48 bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct shard_sets;

/* Creates an empty state, which the caller frees by free(3). Returns NULL if there is no memory. */
struct shard_sets *shard_sets_new(void);

/*
 * Notes a name. Names come in the order of paths, in which the files of a stem nearly always lie
 * together.
 */
void shard_sets_add(struct shard_sets *sets, const char *name, size_t length);

/*
 * Notes a name that differs from the last name only in the number name[begin] to name[end - 1].
 * Returns false if nothing was noted: the name then goes to shard_sets_add().
 */
bool shard_sets_count(struct shard_sets *sets, const char *name, size_t begin, size_t end);

/* Returns whether the files come in sets, when all names have been noted. */
bool shard_sets_found(struct shard_sets *sets);
