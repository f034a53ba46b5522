/* SPDX-License-Identifier: MIT */
/*
 * given.h - which file, folder or object SHARD_LISTING names for a dataset, where it is a list of
 * them (config/listings.h), and the listing that is there. Not for manifests.
 */
#ifndef SHARD_CACHE_GIVEN_H
#define SHARD_CACHE_GIVEN_H

#include <stdbool.h>
#include <stddef.h>

struct shard_listing;
struct shard_wanted;

enum shard_given_kind {
  SHARD_GIVEN_ONE,  /* a file or object for all datasets: it may be of another one */
  SHARD_GIVEN_OWN,  /* by %d, or by a folder: it must be of this one */
  SHARD_GIVEN_AMONG /* a folder, or several: shard_given_open_among() looks for it */
};

/*
 * Tell what SHARD_LISTING is, and print the path of the file or object into file[size]; of a
 * folder, only if rank 0 is to make it there (`first`). dir: as the caller has it; NULL: none. 0,
 * or a negative errno and a line in err[].
 */
int shard_given_find(const struct shard_wanted *wanted, const char *dir, bool first,
                     enum shard_given_kind *kind, char *file, size_t size, char *err,
                     size_t err_size);

/*
 * Look at all files and objects for the listing of this dataset, and open it. Of those that would
 * do, one made with the very options comes first. 1: *out is open. A negative errno and a line in
 * err[size]: there is none, there are two, it is not true any more, or a file that is named cannot
 * be used.
 */
int shard_given_open_among(const struct shard_wanted *wanted, const char *dir,
                           struct shard_listing **out, char *err, size_t size);

#endif
