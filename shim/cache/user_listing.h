/* SPDX-License-Identifier: MIT */
/*
 * user_listing.h - what SHARD_LISTING names: files and objects (s3://bucket/key) of listings.
 *
 * shardctl copies the listing for each job: others may write to the file, and nothing that others
 * may cut is mapped. The copy is checked, all of its bytes, and once for a job: every
 * directory that it has noted still has its inode and times. On an image that nothing tells from
 * others (squashfs) the directory is walked, and the names are compared. On FUSE, whose inodes and
 * times are often invented, nothing is compared, and a line says so.
 */
#pragma once

#include <stddef.h>

struct shard_making;
struct shard_request;

/*
 * Put the request's listing at `file`. The KEY's lock is ours. 0; 1 and a line: what is named has
 * no listing of the directory, 2: but of one beside it, as a program that lists train and valid has
 * one variable for both; or a negative errno and a line in err[size]: -ESTALE, the directory has
 * changed; -EINVAL, it was made with other options, or two are named, or the rank's own is of
 * another directory.
 */
int shard_user_listing_make(const struct shard_request *r, const struct shard_making *m, const char *file,
                     char *err, size_t size);
