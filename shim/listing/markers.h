/* SPDX-License-Identifier: MIT */
/*
 * markers.h - the names that make a directory a table. The files of a table are told by the table's
 * own log: a share of them would be another version, or none. So tables are refused, not divided.
 *
 * The only place that knows the markers. Asked where names are listed: while a listing is made
 * (build/intake.c), and where there is none (SHARD_STRATEGY=hash). Pure.
 */
#pragma once

#include <stddef.h>

struct shard_options;

/*
 * The format's name if the last component of path[length], relative to the dataset's root, is a
 * marker that SHARD_INCLUDE does not leave out; *table: bytes of the path of the table's directory,
 * without a slash. Else NULL.
 */
const char *shard_marker_find(const struct shard_options *o, const char *path, size_t length,
                              size_t *table);

/* The same for each directory on the way to path[length], too: the topmost marker counts. */
const char *shard_marker_above(const struct shard_options *o, const char *path, size_t length,
                               size_t *table);

/* For messages: the table's path, and the format. */
#define SHARD_TABLE_REFUSED                                                                        \
  "'%.560s' is a table (%s), whose files libshard does not divide, and "                           \
  "listing calls on it fail: let the table's own reader divide it, set SHARD_VIEW=off, or leave "  \
  "the table's log out of SHARD_INCLUDE"
