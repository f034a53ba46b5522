/* SPDX-License-Identifier: MIT */
/* given.h - a listing that was made elsewhere, and SHARD_LISTING, which names one. */
#ifndef SHARD_CACHE_GIVEN_H
#define SHARD_CACHE_GIVEN_H

#include <stdbool.h>
#include <stddef.h>

#include "listing/options.h"

struct shard_listing;

/* Whether every directory walked still has the inode and mtime it had; `real` is the root now. */
bool shard_given_true(const struct shard_listing *listing, const char *real);

/* Whether it is of `real`, and has the very names that are asked for, be they true or not. */
bool shard_given_serves(const struct shard_listing *listing, const char *real,
                        const struct shard_options *asked);

/*
 * Is it the one for directory `real`? 1: yes. -ESTALE: it is not true any more. 0: it is of another
 * directory or kind; why[] has a line about that, in which it is called `name`, or "" if it is no
 * matter.
 */
int shard_given_judge(const struct shard_listing *listing, const char *name, const char *real,
                      const struct shard_options *asked, char *why, size_t size);

/* Nothing yet, an old one, or one of an older libshard: rank 0 will see to it. */
bool shard_given_passing(int rc);

/*
 * Open listing `file` for directory `real`. 1: *out is open. 0: it is of another directory or kind,
 * which a warning says. A negative errno: it cannot be opened (-ENOENT), or is not true any more
 * (-ESTALE).
 */
int shard_given_look(const char *file, const char *real, const struct shard_options *asked,
                     struct shard_listing **out);

/* The same, with a line in err[size] about a negative errno; warned of by the name it was given. */
int shard_given_open(const char *file, const char *name, const char *real,
                     const struct shard_options *asked, struct shard_listing **out, char *err,
                     size_t size);

struct shard_given_watch {
  bool (*enough)(void *context); /* there is no need to wait any longer */
  void *context;
};

/*
 * The same, waiting until rank 0 has put it there; -ETIMEDOUT after SHARD_TIMEOUT seconds.
 * SHARD_GIVEN_ENOUGH: that is not needed any more (watch; NULL: none).
 */
#define SHARD_GIVEN_ENOUGH 2
int shard_given_await(const char *file, const char *real, const struct shard_options *asked,
                      const struct shard_given_watch *watch, struct shard_listing **out, char *err,
                      size_t size);

/* Put a copy of a listing there, whole or not at all. 0, or a negative errno and a line in err. */
int shard_given_put(const struct shard_listing *listing, const char *file, char *err, size_t size);

#endif
