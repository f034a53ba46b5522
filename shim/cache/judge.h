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

#include "listing/options.h"

struct shard_listing;

/*
 * Whether every directory that was walked still has its inode, ctime and mtime. More cannot be
 * asked of a listing that another host may have made. true of a listing of a text or a bucket: it
 * has no directories.
 *
 * here, for the node's cache: each must also lie on the very file system that it lay on
 * (identity.h), for no user has said that the listing is of what is there. If the listing was made
 * elsewhere, or before a boot, a clock must give the file system's times instead.
 */
bool shard_judge_is_true(const struct shard_listing *listing, const char *real, bool here);

/*
 * Whether the listing is of `real`, and its options give the names that `asked` gives. It may be
 * out of date: see shard_judge_is_true().
 */
bool shard_judge_serves(const struct shard_listing *listing, const char *real,
                        const struct shard_options *asked);

/*
 * Whether to use the listing. 1: yes. -ESTALE: it is not true any more. 0: it is of another
 * directory, or was made with other options; why[size] then has a line for people, in which the
 * listing is called `name`, or "" if that is normal (train and valid share one variable, and it is
 * of the other one).
 */
int shard_judge(const struct shard_listing *listing, const char *name, const char *real,
                const struct shard_options *asked, char *why, size_t size);

/*
 * Whether rank 0 will put a usable listing there after this error of shard_listing_open() or
 * shard_judge(): there is none, an old one, a damaged one, or another version's.
 */
bool shard_judge_may_come(int rc);

/* What to do about such an error, for people. */
const char *shard_judge_remedy(int rc);

/*
 * Open listing `file`, which messages call `name`, if it is to be used. 1: *out is the caller's,
 * for shard_listing_close(). 0: it is not to be used, and a warning was printed if shard_judge()
 * gave one. A negative errno, also of shard_listing_open(), and a line in err[size].
 */
int shard_judge_open(const char *file, const char *name, const char *real,
                     const struct shard_options *asked, struct shard_listing **out, char *err,
                     size_t size);
