/* SPDX-License-Identifier: MIT */
/*
 * build.h - from a source to a listing file (shardctl only).
 */
#ifndef SHARD_BUILD_H
#define SHARD_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "listing/options.h"

struct shard_build_result {
  uint64_t entries;
  uint64_t bytes;
  uint64_t directories;
  char digest[65];
};

/*
 * List directory `root` and write the listing `file`. 0, or a negative errno and a line in
 * err[size] that names the path at fault. An older `file` stays untouched on failure.
 * Retries a few times if the directory changes while it is read.
 */
int shard_build_directory(const char *root, const struct shard_options *options, const char *file,
                          struct shard_build_result *result, char *err, size_t size);

#endif
