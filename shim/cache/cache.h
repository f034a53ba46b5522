/* SPDX-License-Identifier: MIT */
/*
 * cache.h - the job's listing: one for all processes of a job on this host.
 *
 * The first process of the job that needs a listing has shardctl make it, and the others wait. It
 * is never judged again: the next job has its own. What SHARD_LISTING names is checked once for a
 * job, and copied.
 *
 *   cache            finds or makes a listing: the steps of a call
 *   request          which listing is asked for, and its KEY
 *   job              which job this is
 *   lock             which process makes a listing, and which processes map it
 *   make             runs shardctl
 *   user_listing     the listings that SHARD_LISTING names
 *   permutation      numpy's permutations for the adapter
 *   collect          which files are removed, and when
 *   filenames, cachedir, safe   names, directory and ownership of the files
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
 *                 stands for the prefix, or NULL
 *   a manifest    dir, list: the names of a text with a name a line that lie below dir, in its own
 *                 order within each directory, those that come twice too
 *   a listing     dir, list: one of this rank's or epoch's own; it is used as it is
 *   names         names, names_size: each with a NUL behind it, in just this order; all processes
 *                 of the job that ask for the same names have one
 */
struct shard_cache_source {
  const char *dir, *url;
  const char *names;
  size_t names_size;
  const char *list; /* what SHARD_LISTING names for this rank and epoch: a file or an object */
  const struct shard_options *options; /* NULL: `words` tells; a manifest has none of its own */
  const char *words;                   /* the options of shard_dataset_open() */
  const char *const *environment;      /* for shardctl, see shard_dataset_open_s3(); or NULL */
  bool alone;                          /* this call's own: no other process has it */
  uint64_t round; /* not 0: of the job's processes, those that pass the same have one listing */
  int64_t since;  /* not 0: made anew, if it was begun before (ns since 1970) */
  bool compared;  /* the caller sees to it that all hosts have the same */
};

int shard_cache_open(const struct shard_cache_source *source, struct shard_listing **out, char *err,
                     size_t size);

/* When the library is loaded: the time before which this program has asked for nothing. */
void shard_cache_init(void);
