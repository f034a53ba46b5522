/* SPDX-License-Identifier: MIT */
/*
 * cache.h - opens the job's listing, which all processes of a job on this host share.
 *
 * The first process of the job that needs a listing starts shardctl, which makes the listing; the
 * other processes wait. A job's listing is not compared with the dataset again: the next job has
 * its own listing. A listing that SHARD_LISTING names is checked and copied once for a job.
 *
 *   cache            finds or makes a listing: the steps of a call
 *   request          the listing that a call asks for, and its KEY
 *   job              the job of this process
 *   lock             the process that makes a listing, and the processes that map the listing
 *   make             runs shardctl
 *   user_listing     the listings that SHARD_LISTING names
 *   permutation      numpy's permutations for the adapter
 *   collect          the files that are removed from the cache, and when
 *   filenames, cachedir, safe   names, directory and ownership of the files
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_listing;
struct shard_options;

/*
 * The source of a listing, and how the listing is made. Fields that do not apply are 0.
 *
 *   a directory   dir: as for shard_dataset_open()
 *   a bucket      url: s3://bucket/prefix; the names are the keys below the prefix. dir: the
 *                 directory that stands for the prefix, or NULL
 *   a manifest    dir, list: the listing has the names that lie below dir, out of a text with one
 *                 name a line. Within each directory the names keep the order of the text, and a
 *                 name that the text has twice is listed twice
 *   a listing     dir, list: a listing of dir for this rank or epoch alone, used unchanged
 *   names         names, names_size: the listing has these names in this order. All processes of
 *                 the job that ask for the same names have one listing
 */
struct shard_cache_source {
  const char *dir, *url;
  const char *names; /* a NUL follows each name */
  size_t names_size;
  const char *list; /* the file or object that SHARD_LISTING names for this rank and epoch */
  const struct shard_options *options; /* NULL: `words` has them; not for a manifest or names */
  const char *words;                   /* the options as a text, as for shard_dataset_open() */
  const char *const *environment;      /* for shardctl, see shard_dataset_open_s3(); or NULL */
  bool alone;     /* the listing is for this call: no other call gets the listing */
  uint64_t round; /* not 0: processes of the job that pass the same round have one listing */
  int64_t since;  /* not 0: a listing that was begun earlier is made anew (ns since 1970) */
  bool compared;  /* the caller compares the hosts' listings, so no warning is needed */
};

/*
 * Opens the listing of a source: a file of the cache. If the cache has none, starts shardctl, or
 * waits for the process that has started shardctl, for up to SHARD_TIMEOUT. Keeps errno.
 * out: gets the listing, which the caller closes; NULL on an error.
 * Errors: a negative errno and a line in err[size]. -ENOENT, where SHARD_LISTING is not set: the
 * directory is missing.
 */
int shard_cache_open(const struct shard_cache_source *source, struct shard_listing **out, char *err,
                     size_t size);

/*
 * Notes the time of the library's load, before which this program has opened no listing. Called
 * when the library is loaded.
 */
void shard_cache_init(void);
