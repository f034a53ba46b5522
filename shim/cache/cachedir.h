/* SPDX-License-Identifier: MIT */
/* cachedir.h - the cache directory. shard_cache_dir() (libshard.h) finds it with make = true. */
#ifndef SHARD_CACHE_CACHEDIR_H
#define SHARD_CACHE_CACHEDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Print the path of the cache directory into buf[size], and check the directory; make: create it if
 * it is not there. Returns the length of the path, or a negative errno and a line in err[errsize]:
 * -EPERM if it belongs to another user or is open to others. buf has the path in any case, cut off
 * if it is too long. Thread-safe; errno is left alone.
 */
ssize_t shard_cachedir_find(bool make, char *buf, size_t size, char *err, size_t errsize);

/* The name of a file system that nodes share ("NFS", "Lustre", ...), by statfs(2)'s f_type; else
 * NULL. */
const char *shard_cachedir_network(unsigned type);

/* Whether a path lies on such a file system. errno may change. */
bool shard_cachedir_on_network(const char *path);

#endif
