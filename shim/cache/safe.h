/* SPDX-License-Identifier: MIT */
/*
 * safe.h - opens files of the cache, and other files whose content is trusted, after a check that
 * only this user or root can have written them.
 *
 * A path may lead to another file at each call. So a file is opened first, and the open file is
 * checked: a regular file of this user or of root, to which no other user may write. Opening a pipe
 * does not wait, and fails.
 */
#pragma once

#include <stddef.h>
#include <sys/stat.h>

struct shard_listing;

/*
 * Opens a file and checks it.
 * flags, mode: of open(2); O_CLOEXEC and O_NOFOLLOW are added.
 * st: gets the file's stat; or NULL.
 * Returns the descriptor.
 * Errors: a negative errno and a line in err[size] that does not name the file. -EPERM: another
 * user owns the file, or may write to the file. -EACCES: the file cannot be opened, and the line
 * may name the owner. -ELOOP: the path is a symbolic link. -EINVAL: the file is no regular file.
 */
int shard_safe_open(const char *path, int flags, mode_t mode, struct stat *st, char *err,
                    size_t size);

/* Opens a file for reading as shard_safe_open() does. Returns the descriptor. */
int shard_safe_read(const char *path);

/*
 * Opens a listing whose file shard_safe_read() accepts. Keeps errno.
 * out: gets the listing, which the caller closes.
 * Errors: a negative errno of shard_safe_open() or shard_listing_open().
 */
int shard_safe_listing(const char *path, struct shard_listing **out);
