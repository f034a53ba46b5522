/* SPDX-License-Identifier: MIT */
/*
 * listing_list.h - SHARD_LISTING's value. Pure functions; no file is opened.
 *
 * A manifest, or a path with %r or %e, is one item, whatever colons it has. Any other value is a
 * list of listings that all ranks share, files or objects (s3://bucket/key), separated by ':';
 * there %: stands for a colon, and %% for a percent sign.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* An item, a part of the list, which does not end with NUL. */
struct shard_listing_item {
  const char *text;
  size_t length;
};

/* Gets the first item of a list. Returns the rest of the list; NULL if the list has no item. */
const char *shard_listing_list_next(const char *list, struct shard_listing_item *out);

/* Returns whether a text, an item or a path, begins with s3://. */
bool shard_listing_list_is_object(const char *text);

/*
 * Finds what is wrong with a list.
 * Returns static text that is printed after "VARIABLE='value' "; "" for a wrong %LETTER or a path
 * that is too long; NULL if the list is right.
 */
const char *shard_listing_list_fault(const char *list);

/*
 * Prints the list into buf[size], relative paths resolved against `directory`.
 * Returns the length without the NUL; `size` or more if the list does not fit.
 */
size_t shard_listing_list_make_absolute(const char *list, const char *directory, char *buf,
                                        size_t size);
