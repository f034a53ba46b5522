/* SPDX-License-Identifier: MIT */
/*
 * cachedir.h - the cache directory. shard_cache_dir() (libshard.h) finds it with make = true.
 *
 * It is a directory to which nobody but this user and root can write: $SHARD_CACHE_DIR. Where that
 * is one in which all users have files (/dev/shm, /tmp: sticky), it is the folder libshard-UID in
 * it; by default that in /dev/shm. Such a folder is open to this user alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Print the path of the cache directory into buf[size], and check the directory; make: create it if
 * it is not there. Returns the length of the path, or a negative errno and a line in err[errsize]:
 * -EPERM if it belongs to another user, or others may write to it. buf has the path in any case,
 * cut off if it is too long. Thread-safe; errno is left alone.
 */
ssize_t shard_cachedir_find(bool make, char *buf, size_t size, char *err, size_t errsize);
