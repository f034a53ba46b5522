/* SPDX-License-Identifier: MIT */
/*
 * build.h - from a source to a listing file (shardctl only).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/options.h"

struct shard_source;

struct shard_build_result {
  uint64_t entries;
  uint64_t bytes; /* size of the file */
  uint64_t directories;
  uint64_t tables; /* directories that are tables (listing/markers.h), and not in it */
  char digest[65]; /* as in struct shard_listing_info */
};

/*
 * Read a source (build/intake.h) and write the listing `file`, with memory for names and a folder
 * for those that do not fit as the variables say. 0, or a negative errno and a line in err[size]
 * that names the path at fault. On failure an older `file` stays untouched. A directory that
 * changes while it is read is read again, at most five times in all; then -EAGAIN.
 *
 * options->attributes of a source without types: SHARD_ATTRIBUTES_MADE (format.h), only
 * in the orders PATH, DIRECTORY and SAMPLE. Starts threads; all have ended when it returns.
 */
int shard_build(const struct shard_source *source, const struct shard_options *options,
                const char *file, struct shard_build_result *result, char *err, size_t size);
