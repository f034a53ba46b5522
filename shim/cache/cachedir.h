/* SPDX-License-Identifier: MIT */
/* cachedir.h - the cache directory; shard_cache_dir() of libshard.h is the same with make = true.
 */
#ifndef SHARD_CACHE_CACHEDIR_H
#define SHARD_CACHE_CACHEDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * The cache directory, made if asked for, and checked. Its length, or a negative errno with a line
 * in err; buf holds the path in any case, cut off at `size`.
 */
ssize_t shard_cachedir_find(bool make, char *buf, size_t size, char *err, size_t errsize);

#endif
