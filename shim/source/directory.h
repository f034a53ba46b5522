/* SPDX-License-Identifier: MIT */
/* directory.h - a directory tree as the source of a listing (shardctl only). */
#pragma once

#include <stddef.h>

#include "build/build.h"

/*
 * Lists the directory `root` and writes the listing `file`, as shard_build() does. The listing's
 * source is the real path of `root`.
 * Errors: as shard_build(), and of realpath(3).
 */
int shard_directory_build(const char *root, const struct shard_options *options, const char *file,
                          struct shard_build_result *result, char *err, size_t size);
