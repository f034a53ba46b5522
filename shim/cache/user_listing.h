/* SPDX-License-Identifier: MIT */
/*
 * user_listing.h - finds, copies and checks the listing of a directory among the files and objects
 * (s3://bucket/key) that SHARD_LISTING names.
 *
 * shardctl copies the listing into the cache, once for a job. The file itself is not mapped,
 * because other users may be able to write to the file or truncate it. shardctl checks all bytes of
 * the copy. Then each directory that the listing has noted must have the same inode and times as
 * before. On a read-only image that cannot be told from another image (squashfs) the directory is
 * walked, and the names are compared. On FUSE, whose inodes and times are often invented, the
 * directories are not compared, and a warning tells so.
 */
#pragma once

#include <stddef.h>

struct shard_making;
struct shard_request;

/*
 * Finds the item of SHARD_LISTING that is a listing of the request's directory or bucket, copies
 * the listing to `file` and checks the copy.
 * m: the lock of the KEY, which this process has.
 * Returns 0: `file` is the listing. 1, and a line in err[size]: no item is a listing of the
 * directory. 2, and a line: no item is a listing of the directory, but an item is a listing of a
 * directory with the same parent. A program that lists train and valid has one SHARD_LISTING, which
 * may name a listing of train alone.
 * Errors: a negative errno and a line in err[size]. -ESTALE: the directory has changed since the
 * listing was made. -EINVAL: the listing was made with other options; two items are listings of the
 * directory; or the item of this rank or epoch is a listing of another directory.
 */
int shard_user_listing_make(const struct shard_request *r, const struct shard_making *m,
                            const char *file, char *err, size_t size);
