/* SPDX-License-Identifier: MIT */
/*
 * safe.h - files that nobody else can have put there or can change: what the cache opens, and other
 * files that are believed.
 *
 * A path may lead to another file at each look. So a file is opened first, and what was opened is
 * looked at: a regular file, of this user or of root, to which nobody else may write. Opening waits
 * for nobody: a pipe is refused.
 */
#pragma once

#include <stddef.h>
#include <sys/stat.h>

struct shard_listing;

/*
 * Open a file, no link, with these flags and mode of open(2), and O_CLOEXEC. The descriptor, or a
 * negative errno and a line in err[size], which does not name the file: -EPERM if it is another
 * user's, or open to others; -ELOOP; -EINVAL if it is no regular file. st may be NULL.
 */
int shard_safe_open(const char *path, int flags, mode_t mode, struct stat *st, char *err,
                    size_t size);

/* Open it for reading, no link. The descriptor or a negative errno. */
int shard_safe_read(const char *path);

/* Open a listing so. 0, or a negative errno, of shard_listing_open() too. */
int shard_safe_listing(const char *path, struct shard_listing **out);
