/* SPDX-License-Identifier: MIT */
/*
 * cachedir.h - the cache directory. shard_cache_dir() (libshard.h) finds it with make = true.
 *
 * Nobody but this user and root can write to the cache directory. SHARD_CACHE_DIR names it. If
 * SHARD_CACHE_DIR is a common folder (where all users have files: sticky, as /tmp), the cache
 * directory is libshard-UID in that folder. The default is /tmp/libshard-UID; if that cannot be
 * made for EROFS, EACCES or ENOENT, it is /dev/shm/libshard-UID. A libshard-UID is open to this
 * user alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Print the path of the cache directory into buf[size], and check the directory; make: create the
 * directory if it is not there. Without make, the default is the one that would be made.
 * Returns the length of the path, or a negative errno and a line in err[errsize] that names
 * SHARD_CACHE_DIR and a remedy: -EPERM if the directory belongs to another user, or others may
 * write to it. buf has the path in any case, cut off if it is too long.
 * Thread-safe; errno is left alone.
 */
ssize_t shard_cachedir_find(bool make, char *buf, size_t size, char *err, size_t errsize);
