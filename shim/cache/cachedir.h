/* SPDX-License-Identifier: MIT */
/*
 * cachedir.h - finds and checks the cache directory. shard_cache_dir() (adapter/api.h) is
 * shard_cachedir_find() with make = true.
 *
 * Only this user and root can write to the cache directory. SHARD_CACHE_DIR names the directory. If
 * SHARD_CACHE_DIR is a common folder, in which all users may make files (sticky, as /tmp), the
 * cache directory is libshard-UID in that folder. The default is /tmp/libshard-UID. If /tmp cannot
 * be used (EROFS, EACCES or ENOENT), the default is /dev/shm/libshard-UID. A directory named
 * libshard-UID is open to this user alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Prints the path of the cache directory, and checks the directory. Keeps errno.
 * make: create the directory if it is missing. Without make, the default is the directory that
 * would be created.
 * buf: gets the path, on an error of the directory too; cut off if the path is too long.
 * Returns the length of the path.
 * Errors: a negative errno and a line in err[errsize] that names SHARD_CACHE_DIR as a remedy.
 * -EPERM: the directory belongs to another user, or other users may write to the directory.
 * -ENAMETOOLONG: the path does not fit into buf.
 */
ssize_t shard_cachedir_find(bool make, char *buf, size_t size, char *err, size_t errsize);
