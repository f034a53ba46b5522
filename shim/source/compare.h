/* SPDX-License-Identifier: MIT */
/* compare.h - compares a listing with its directory (shardctl only). */
#pragma once

#include <stddef.h>

#define SHARD_COMPARED 64 /* directories */

/*
 * Read 64 directories of the listing `file` below `root`, first directories that are empty in the
 * listing, and look for each entry in the listing. 0, or a negative errno and a line in err[size]
 * that names the missing entry.
 */
int shard_compare_directories(const char *file, const char *root, char *err, size_t size);
