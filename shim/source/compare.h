/* SPDX-License-Identifier: MIT */
/* compare.h - a listing beside the directory that it is of (shardctl only). */
#pragma once

#include <stddef.h>

#define SHARD_COMPARED 64 /* directories */

/*
 * Read 64 of the directories of the listing `file` below `root`, those first in which it has
 * nothing, and look for each entry in the listing. 0, or a negative errno and a line in err[size]
 * that names what is missing.
 */
int shard_compare_directories(const char *file, const char *root, char *err, size_t size);
