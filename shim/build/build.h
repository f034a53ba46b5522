/* SPDX-License-Identifier: MIT */
/*
 * build.h - from a source to a listing file (shardctl only).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "listing/options.h"

struct shard_source;

struct shard_build_result {
  uint64_t entries;
  uint64_t bytes; /* size of the file */
  uint64_t directories;
  char digest[65]; /* as in struct shard_listing_info */
};

/* How a listing is built. Zeros: the defaults. */
struct shard_build_means {
  size_t memory;      /* bytes for names, at least SHARD_BUILD_MEMORY_LEAST; 0: the default */
  const char *tmpdir; /* folder for names that do not fit; NULL: TMPDIR, then the file's folder */
  bool unique;        /* count a name that comes twice once. Else it is an error, unless
                         options->order is SHARD_ORDER_KEEP or _DIRECTORY */
};

/*
 * Read a source (build/intake.h) and write the listing `file`. 0, or a negative errno and a line in
 * err[size] that names the path at fault. On failure an older `file` stays untouched. A directory
 * that changes while it is read is read again, at most five times in all; then -EAGAIN.
 *
 * options->attributes of a source without inodes and types: SHARD_ATTRIBUTES_MADE (format.h), only
 * in the orders PATH and DIRECTORY. Starts threads; all have ended when it returns.
 */
int shard_build(const struct shard_source *source, const struct shard_options *options,
                const struct shard_build_means *means, const char *file,
                struct shard_build_result *result, char *err, size_t size);
