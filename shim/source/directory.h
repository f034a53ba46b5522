/* SPDX-License-Identifier: MIT */
/* directory.h - a directory tree as the source of a listing (shardctl only). */
#pragma once

#include <stddef.h>

#include "build/build.h"

/*
 * List directory `root` and write the listing `file`, as shard_build() does: 0, or a negative errno
 * and a line in err[size] that names the path at fault. The listing's source is root's real path.
 */
int shard_directory_build(const char *root, const struct shard_options *options, const char *file,
                          struct shard_build_result *result, char *err, size_t size);
