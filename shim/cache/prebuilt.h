/* SPDX-License-Identifier: MIT */
/*
 * prebuilt.h - a listing that was made elsewhere, such as the one that SHARD_LISTING names: is it
 * the one that is wanted, and is it still true? Thread-safe.
 *
 * `real` is the canonical directory that is asked for (or s3://bucket/prefix/), and `asked` the
 * options it is asked for with.
 */
#ifndef SHARD_CACHE_PREBUILT_H
#define SHARD_CACHE_PREBUILT_H

#include <stdbool.h>
#include <stddef.h>

#include "listing/options.h"

struct shard_listing;

/*
 * Whether every directory that was walked still has the inode and mtime it had. A listing of a text
 * or a bucket has no directories: true.
 */
bool shard_prebuilt_is_true(const struct shard_listing *listing, const char *real);

/*
 * Whether it is of `real`, and holds the very names that are asked for, whatever options it was
 * made with; not whether it is true.
 */
bool shard_prebuilt_serves(const struct shard_listing *listing, const char *real,
                           const struct shard_options *asked);

/*
 * Whether to use it. 1: yes. -ESTALE: it is not true any more. 0: it is of another directory or was
 * made with other options; why[] then has a line that says so and calls the listing `name`, or ""
 * if there is nothing to tell (train and valid share one variable).
 */
int shard_prebuilt_judge(const struct shard_listing *listing, const char *name, const char *real,
                         const struct shard_options *asked, char *why, size_t size);

/*
 * Whether rank 0 will put a usable listing in its place, by the error of shard_prebuilt_try():
 * there is none yet, an old one, a damaged one, or one of another libshard.
 */
bool shard_prebuilt_may_come(int rc);

/*
 * Open listing `file`, if it is to be used. 1: *out is open, and the caller's. 0: it is not, and a
 * warning has said why. A negative errno: it cannot be opened (-ENOENT), or is not true any more
 * (-ESTALE).
 */
int shard_prebuilt_try(const char *file, const char *real, const struct shard_options *asked,
                       struct shard_listing **out);

/* The same, with a line in err[size] about a negative errno. Warnings call the listing `name`. */
int shard_prebuilt_open(const char *file, const char *name, const char *real,
                        const struct shard_options *asked, struct shard_listing **out, char *err,
                        size_t size);

struct shard_prebuilt_watch {
  bool (*enough)(void *context); /* whether to stop waiting; asked before each look */
  void *context;
};

/*
 * The same, but wait until rank 0 has put it there; -ETIMEDOUT after SHARD_TIMEOUT seconds.
 * SHARD_PREBUILT_ENOUGH: watch (NULL: none) said that there is no need to wait any longer.
 */
#define SHARD_PREBUILT_ENOUGH 2
int shard_prebuilt_await(const char *file, const char *real, const struct shard_options *asked,
                         const struct shard_prebuilt_watch *watch, struct shard_listing **out,
                         char *err, size_t size);

/* Put a copy of a listing there, whole or not at all. 0, or a negative errno and a line in err. */
int shard_prebuilt_put(const struct shard_listing *listing, const char *file, char *err,
                       size_t size);

#endif
