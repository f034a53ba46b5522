/* SPDX-License-Identifier: MIT */
/* compare.h - compares a listing with the listed directories (shardctl only). */
#pragma once

#include <stddef.h>

#define SHARD_COMPARED 64 /* directories that are compared */

/*
 * Reads up to SHARD_COMPARED directories of the listing `file` below `root`, and looks for each
 * entry in the listing. The directories are the root, then directories that are empty in the
 * listing (three quarters at most), then directories at equal distances in the listing. A link to a
 * directory is passed over.
 * Errors: -ESTALE, an entry is not in the listing, and err[size] names the entry; of
 * shard_listing_open(), openat(2) and readdir(3).
 */
int shard_compare_directories(const char *file, const char *root, char *err, size_t size);
