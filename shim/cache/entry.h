/* SPDX-License-Identifier: MIT */
/*
 * entry.h - where a wanted listing lies in the cache: found there, or put there.
 *
 * Reading needs no lock: a listing never changes, and links are renamed into place. What puts a
 * listing there, or removes leftovers, holds the entry's lock (elect.h); pinning does not.
 */
#ifndef SHARD_CACHE_ENTRY_H
#define SHARD_CACHE_ENTRY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "cache/filenames.h"
#include "cache/wanted.h"

struct shard_listing;

struct shard_entry {
  const struct shard_wanted *wanted;
  const char *cache; /* the cache directory; somebody else's */
  char key[SHARD_CACHE_KEY];
  char job_key[SHARD_CACHE_KEY]; /* of a job's links: the manifest's path, the bucket's URL */
  bool any_options; /* a listing made with other options will do, if it has the names asked for */
};

/* A listing of the cache, open, and its name there. */
struct shard_found {
  struct shard_listing *listing; /* NULL: none */
  char name[SHARD_CACHE_NAME];
};

/*
 * Find the cache directory, made if need be, for what is wanted: into cache[PATH_MAX], which shall
 * live as long as the entry. 0, or a negative errno and a line in err[size].
 */
int shard_entry_locate(struct shard_entry *e, const struct shard_wanted *w, char *cache, char *err,
                       size_t size);

/* The path of a name in the cache directory; malloc'd, NULL: no memory. */
char *shard_entry_path(const struct shard_entry *e, const char *name);

/* ---- finding: true if found->listing is open, and the caller's ---- */

/* The newest listing, if it is true still. */
bool shard_entry_find_current(const struct shard_entry *e, struct shard_found *found);

/* The listing that a job began with, true or not. */
bool shard_entry_find_pinned(const struct shard_entry *e, const char *job,
                             struct shard_found *found);

/*
 * The same of an object that all nodes share, where no job is known: all that use it are one, for
 * some minutes, and as long as it is true.
 */
bool shard_entry_find_shared(const struct shard_entry *e, const char *object,
                             struct shard_found *found);

/* Whether a job has one, and it has not been removed. */
bool shard_entry_is_pinned(const struct shard_entry *e, const char *job);

/* ---- putting ---- */

/* Make *found the job's, unless it has one already, which *found is then. Whether it was the first.
 */
bool shard_entry_pin(const struct shard_entry *e, const char *job, struct shard_found *found);

/* The path of a file to be built; malloc'd. */
char *shard_entry_new_file(const struct shard_entry *e);

/*
 * Give a new listing, `file`, its name, and make it the current one. The file is gone in any case.
 * 0, or a negative errno and a line in err[size].
 */
int shard_entry_install(const struct shard_entry *e, const char *file, struct shard_found *found,
                        char *err, size_t size);

/*
 * Make a symbolic link that appears at once, over an older one. 0, or a negative errno.
 */
int shard_entry_link(const struct shard_entry *e, const char *target, const char *name);

/* Remove what builders of this entry have left that died, and what jobs of a month ago have. */
void shard_entry_remove_leftovers(const struct shard_entry *e);

/* Warn of a listing, whose digest tells it apart. */
void shard_entry_say_digest(const struct shard_entry *e, const struct shard_listing *listing,
                            const char *what);

#endif
