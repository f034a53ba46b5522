/* SPDX-License-Identifier: MIT */
/*
 * dataset_list.h - SHARD_DATASET's value, a list separated by ':'. Pure functions; no file is
 * opened.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * An item: "DIR"; "DIR=s3://bucket/prefix", a directory that stands for a bucket; or a bucket
 * without a directory, "s3://bucket/prefix" or "gs://bucket/prefix". The texts are parts of the
 * list, and do not end with NUL.
 */
struct shard_dataset_item {
  const char *path;   /* the directory; the URL of a bucket without a directory */
  size_t path_length; /* 0: a bucket without a directory */
  const char *url;    /* NULL: a plain DIR */
  size_t url_length;
};

/* Gets the first item of a list. Returns the rest of the list; NULL if the list has no item. */
const char *shard_dataset_list_next(const char *list, struct shard_dataset_item *out);

/*
 * Finds what is wrong with a list.
 * Returns static text that is printed after "VARIABLE='value' "; NULL if the list is right.
 */
const char *shard_dataset_list_fault(const char *list);

/* Returns whether a text begins with s3:// or gs://, five bytes. */
bool shard_dataset_list_is_url(const char *text);

/* Returns whether an item is a bucket without a directory: libc's calls cannot list it. */
static inline bool shard_dataset_item_is_bucket(const struct shard_dataset_item *item) {
  return item->url && item->url == item->path;
}

/* Returns whether a list has directories (bucket: false), or buckets without one (true). */
bool shard_dataset_list_has(const char *list, bool bucket);

/*
 * Prints the list into buf[size], relative paths resolved against `directory`.
 * Returns the length without the NUL; `size` or more if the list does not fit.
 */
size_t shard_dataset_list_make_absolute(const char *list, const char *directory, char *buf,
                                        size_t size);
