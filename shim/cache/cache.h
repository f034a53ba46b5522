/* SPDX-License-Identifier: MIT */
/*
 * cache.h - listings for the ranks of a job: found in the node's cache, checked, or built by one
 * process while the others wait.
 *
 *   cache.c     the way of a call
 *   store.h     what identifies a listing, and where it lies: find, put, pin
 *   judge.h     is it the one, and true?
 *   make.h      who makes it: the lock, and shardctl at work
 *   named.h     what SHARD_LISTING names
 *   filenames.h, cachedir.h, lock.h, safe.h   files of the cache
 *
 * All functions return 0, or a negative errno and one line for people in err[size] that names the
 * path or variable at fault and the remedy. Thread-safe; errno is left alone. They may start a
 * process (host/builder.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_listing;
struct shard_options;

/*
 * What a listing is of. What is not set is 0.
 *
 *   a directory   dir: as shard_dataset_open()
 *   a bucket      url: the keys below s3://bucket/prefix are the names; dir: the directory that
 *                 stands for it, or NULL. A bucket does not tell that it has changed: each job
 *                 lists it anew
 *   a manifest    dir, list: the names of a text with a name a line that lie below dir, in its own
 *                 order within each directory, those that come twice too. Its listing is made when
 *                 it is first used on a node
 *   a listing     dir, list: one of this rank's or epoch's own; it is used as it is
 */
struct shard_cache_source {
  const char *dir, *url;
  const char *list; /* what SHARD_LISTING names for this rank and epoch: a file or an object */
  const struct shard_options *options; /* NULL: `words` tells; a manifest has none of its own */
  const char *words;                   /* the options of shard_dataset_open() */
  const char *const *environment;      /* for shardctl, see shard_dataset_open_s3(); or NULL */
  /* All processes of the job on this node have one listing, the first that any of them had, though
   * the directory changes meanwhile (then a warning tells the digest). Not set, or no job is known:
   * the listing as it is now. */
  bool for_job;
  uint64_t round; /* not 0: processes that pass the same get one (shard_dataset_open_s3()) */
  bool anew;      /* the listing must be begun at `since` or later; 0, or no job is known: now */
  int64_t since;
  bool compared; /* the caller sees to it that all hosts have the same */
};

int shard_cache_open(const struct shard_cache_source *source, struct shard_listing **out, char *err,
                     size_t size);
