/* SPDX-License-Identifier: MIT */
/*
 * listings.h - SHARD_LISTING's value as a list. Pure functions on texts; they open no file.
 *
 * A manifest, or a path with %r or %e, is one item, whatever colons it has. All else is files and
 * objects (s3://bucket/key) of listings that all ranks share, separated by ':', with %: for a colon
 * and %% for a percent sign.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A part of the list, not NUL-terminated. */
struct shard_listings_item {
  const char *text;
  size_t length;
};

/* Get the first item of a list. Returns the rest of the list; NULL if the list has no item. */
const char *shard_listings_next(const char *list, struct shard_listings_item *out);

/* Whether a text, an item or a path, begins as an object's URL does. */
bool shard_listings_is_object(const char *text);

/* Whether a list has more than one item. */
bool shard_listings_are_several(const char *list);

/*
 * What is wrong with a list, to be printed after "VARIABLE='value' ": static storage. "": a wrong
 * %LETTER, or a path that is too long. NULL: nothing.
 */
const char *shard_listings_fault(const char *list);

/*
 * Print the list into buf[size], relative paths resolved against `directory`. Returns the length
 * without the NUL; `size` or more if it does not fit.
 */
size_t shard_listings_make_absolute(const char *list, const char *directory, char *buf,
                                    size_t size);
