/* SPDX-License-Identifier: MIT */
/*
 * filenames.h - the names of files in the cache directory, printed and parsed.
 *
 *   KEY.lock                     flock'ed by the process that builds, and by its shardctl
 *   KEY.new.PID.listing          what is being built; left over if nobody has the lock
 *   KEY-VERSION.listing          a finished listing; never changes, but for the time of a bucket's
 *                                when another job finds the same
 *   KEY.current                  symbolic link to the newest version
 *   KEY.current.new.PID          the same, while it is made
 *   KEY.job-JOB                  symbolic link to the version that a job began with
 *   KEY.got-JOB.SUFFIX           an object that SHARD_LISTING names, as a job has got it: listing,
 *                                txt, txt.gz or txt.zst
 *   perm-KEY.perm                a shuffle or positions of the adapter's (kept.c)
 *   perm-KEY.perm.tmp.PID        the same, while it is made
 *   perm-KEY.lock
 *
 * KEY is 32 hexadecimal digits (store.h); VERSION and JOB are 16; PID is decimal.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHARD_CACHE_KEY 33   /* a KEY and a NUL */
#define SHARD_CACHE_NAME 128 /* room for any of the names */

enum shard_cache_kind {
  SHARD_CACHE_FOREIGN, /* none of ours */
  SHARD_CACHE_LOCK,
  SHARD_CACHE_NEW,
  SHARD_CACHE_LISTING,
  SHARD_CACHE_CURRENT,
  SHARD_CACHE_CURRENT_NEW,
  SHARD_CACHE_JOB,
  SHARD_CACHE_OBJECT,
  SHARD_CACHE_PERMUTATION,
  SHARD_CACHE_PERMUTATION_NEW
};

/* What a KEY begins with that tells a permutation and its lock. */
#define SHARD_CACHE_PERM "perm-"

/*
 * Print a name. key: a KEY, or perm-KEY. number: VERSION, JOB or PID, as the kind has it. Of
 * an OBJECT the caller adds the suffix. Not for FOREIGN. Returns the length.
 */
size_t shard_cache_name_print(enum shard_cache_kind kind, const char *key, uint64_t number,
                              char name[SHARD_CACHE_NAME]);

/*
 * What a name says. *group: how many bytes at its start are shared by all that belong together
 * (KEY, or perm-KEY); *base: of an OBJECT, the bytes of KEY.got-JOB. Both may be NULL.
 */
enum shard_cache_kind shard_cache_name_parse(const char *name, size_t *group, size_t *base);
