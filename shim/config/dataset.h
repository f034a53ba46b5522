/* SPDX-License-Identifier: MIT */
/*
 * dataset.h - SHARD_DATASET's value as a list, and which datasets lie inside others. Pure
 * functions on texts; they open no file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * "DIR", "DIR=s3://bucket/prefix" for a directory that stands for a bucket, or a bucket itself:
 * "s3://bucket/prefix" or "gs://bucket/prefix". The texts are parts of the list, not
 * NUL-terminated.
 */
struct shard_dataset_item {
  const char *path;   /* of a bucket itself: its URL */
  size_t path_length; /* of a bucket itself: 0 */
  const char *url;    /* NULL: a plain DIR */
  size_t url_length;
};

/* Get the first item of a list. Returns the rest of the list; NULL if the list has no item. */
const char *shard_dataset_next(const char *list, struct shard_dataset_item *out);

/* What is wrong with a list, to be printed after "VARIABLE='value' ": static storage. NULL:
 * nothing.
 */
const char *shard_dataset_fault(const char *list);

/* Whether a text begins as a bucket's URL does, s3:// or gs://: five bytes. */
bool shard_dataset_is_url(const char *text);

/* Whether an item is a bucket itself: no directory, so libc's calls know nothing of it. */
static inline bool shard_dataset_is_bucket(const struct shard_dataset_item *item) {
  return item->url && item->url == item->path;
}

/* Whether a list has directories, or buckets themselves. */
bool shard_dataset_has(const char *list, bool bucket);

/*
 * Print the list into buf[size], relative paths resolved against `directory`. Returns the length
 * without the NUL; `size` or more if it does not fit.
 */
size_t shard_dataset_make_absolute(const char *list, const char *directory, char *buf, size_t size);

/*
 * The path from directory `outer` to `inner`, without a slash at its beginning. NULL if `inner` is
 * not inside, or the same. Both are canonical paths. The result is a part of `inner`.
 */
const char *shard_dataset_inside(const char *inner, const char *outer);

/*
 * Fill inside[most] with the paths from roots[outer] to each of roots[count] that lies inside it.
 * Skips roots that are NULL. Returns how many paths it has put there.
 */
size_t shard_dataset_find_inside(const char *const *roots, size_t count, size_t outer,
                                 const char **inside, size_t most);
