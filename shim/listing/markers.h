/* SPDX-License-Identifier: MIT */
/*
 * markers.h - finds the names that make a directory a table. The log of a table tells which files
 * belong to the table: a share of the files would be another version of the table, or no table. So
 * libshard does not divide tables: listing calls on a table fail.
 *
 * No other file knows the markers. The functions are called while a listing is made
 * (build/intake.c), and for each name where there is no listing (SHARD_STRATEGY=hash). Pure.
 */
#pragma once

#include <stddef.h>

struct shard_options;

/*
 * Tells whether the last component of a path is a marker that matches SHARD_INCLUDE.
 * path: path[length], relative to the dataset's root.
 * table: gets the length of the path of the table's directory, without a slash at the end.
 * Undefined if NULL is returned.
 * Returns the name of the table's format, or NULL.
 */
const char *shard_marker_find(const struct shard_options *o, const char *path, size_t length,
                              size_t *table);

/*
 * Tells whether a component of a path is a marker, as shard_marker_find() does. The topmost marker
 * counts.
 */
const char *shard_marker_above(const struct shard_options *o, const char *path, size_t length,
                               size_t *table);

/* The format of the message about a table. Arguments: the table's path, and its format. */
#define SHARD_TABLE_REFUSED                                                                        \
  "'%.560s' is a table (%s), whose files libshard does not divide, and "                           \
  "listing calls on it fail: let the table's own reader divide it, set SHARD_VIEW=off, or leave "  \
  "the table's log out of SHARD_INCLUDE"
