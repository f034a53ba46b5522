/* SPDX-License-Identifier: MIT */
/*
 * judge.h - a listing that is there, in the cache or where SHARD_LISTING says: is it the one that
 * is wanted, and is it still true? Thread-safe; errno may be changed.
 *
 * `real` is the canonical directory that is asked for (or s3://bucket/prefix/), and `asked` the
 * options it is asked for with.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct shard_listing;

/*
 * Whether every directory that was walked still has its inode, ctime and mtime. More cannot be
 * asked of a listing that another host may have made. true of a listing of a text or a bucket: it
 * has no directories.
 *
 * here, for the node's cache: each must also lie on the very file system that it lay on
 * (identity.h), for no user has said that the listing is of what is there.
 */
bool shard_judge_is_true(const struct shard_listing *listing, const char *real, bool here);

/*
 * Say that shard_listing_open() of `name` failed by rc, and the remedy. rc, but -EINVAL of a
 * folder; and a line in err[size].
 */
int shard_judge_refuse(const char *name, int rc, char *err, size_t size);

/*
 * Say that listing `name` of `real` was made with the options `made`, and others are asked for: the
 * remedy has them. -EINVAL, and a line in err[size].
 */
int shard_judge_refuse_options(const char *name, const char *real, const char *asked,
                               const char *made, char *err, size_t size);

/*
 * Open listing `file`, which messages call `name`, if it is to be used. 1: *out is the caller's,
 * for shard_listing_close(). 0: it is of another directory, and a warning was printed unless that
 * is normal (train and valid share one variable, and it is of the other one). A negative errno,
 * also of shard_listing_open(), and a line in err[size]; -ESTALE, -EINVAL.
 */
int shard_judge_open(const char *file, const char *name, const char *real, const char *asked,
                     struct shard_listing **out, char *err, size_t size);
