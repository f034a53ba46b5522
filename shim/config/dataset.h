/* SPDX-License-Identifier: MIT */
/*
 * dataset.h - SHARD_DATASET's value as a list, and which datasets lie inside others. Pure functions
 * on texts.
 */
#ifndef SHARD_CONFIG_DATASET_H
#define SHARD_CONFIG_DATASET_H

#include <stdbool.h>
#include <stddef.h>

/* "DIR", or "DIR=s3://bucket/prefix" for a directory that stands for a bucket. Not NUL-terminated.
 */
struct shard_dataset_item {
  const char *path;
  size_t path_length;
  const char *url; /* NULL: there is none */
  size_t url_length;
};

/* The first item of a list. Where the rest of the list begins; NULL if there is no item. */
const char *shard_dataset_next(const char *list, struct shard_dataset_item *out);

/* NULL, or what is wrong with a list: text that follows the variable and its value. */
const char *shard_dataset_fault(const char *list);

/* Whether an item's path does not begin with '/'. */
bool shard_dataset_is_relative(const char *list);

/*
 * The same list in buf[size], with relative paths begun at `directory`. The length without the NUL,
 * or `size` or more if the room is too small.
 */
size_t shard_dataset_make_absolute(const char *list, const char *directory, char *buf, size_t size);

/*
 * The path of `inner` from `outer`, if it is a directory inside of it: no slash at the beginning.
 * NULL if it is not, or the same. Both are canonical paths. The result is a part of `inner`.
 */
const char *shard_dataset_inside(const char *inner, const char *outer);

/*
 * For each of roots[count] that lies inside roots[outer], its path from there, into inside[most].
 * How many there are, at most `most`. A root that is NULL is passed over.
 */
size_t shard_dataset_find_inside(const char *const *roots, size_t count, size_t outer,
                                 const char **inside, size_t most);

#endif
