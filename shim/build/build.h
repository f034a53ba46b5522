/* SPDX-License-Identifier: MIT */
/* build.h - makes a listing file of the names of a source (shardctl only). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/options.h"

struct shard_source;

struct shard_build_result {
  uint64_t entries;     /* names in the listing */
  uint64_t bytes;       /* of the file */
  uint64_t directories; /* that were walked */
  uint64_t tables;      /* tables (listing/markers.h); the listing has no name below a table */
  char digest[65];      /* as in struct shard_listing_info */
};

/*
 * Reads a source (build/intake.h) and writes the listing `file`. Names take the memory that
 * shard_memory_for_names() allows. Names beyond that go to a temporary file in $TMPDIR, in the
 * listing's folder, in /var/tmp or in /tmp. A directory that changes while it is read is read
 * again, five times at most in all. Starts threads; all have ended when the function returns.
 * options->attributes, of a source without types: the listing gets SHARD_ATTRIBUTES_MADE
 * (listing/format.h); only in the orders PATH, DIRECTORY and SAMPLE.
 * Errors: err[size] names the path at fault; -EAGAIN, the directory has changed five times. An
 * older `file` then stays, as shard_writer_commit() says.
 */
int shard_build(const struct shard_source *source, const struct shard_options *options,
                const char *file, struct shard_build_result *result, char *err, size_t size);
