/* SPDX-License-Identifier: MIT */
/*
 * filenames.h - the names of files in the cache directory, printed and parsed.
 *
 *   KEY.OWNER.listing   a job's listing; never changes. Each process that has it mapped holds a
 *                       shared lock on it (lock.h)
 *   KEY.lock            flock'ed by the process that makes a file of this KEY, and by its shardctl
 *   KEY.new.PID[.*]     what is being made; left over if nobody has the lock
 *   KEY.perm            a shuffle or positions of the adapter's (permutation.c)
 *
 * KEY is 32 hexadecimal digits. OWNER tells whose the listing is: PID-START-NAMESPACE, the job's
 * process; "held", a job that ends with its last process; or "named", a job with a name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_CACHE_KEY 33   /* a KEY and a NUL */
#define SHARD_CACHE_NAME 160 /* room for any of the names */

enum shard_cache_kind {
  SHARD_CACHE_FOREIGN, /* none of ours */
  SHARD_CACHE_LISTING,
  SHARD_CACHE_LOCK,
  SHARD_CACHE_NEW,
  SHARD_CACHE_PERMUTATION
};

/* Print a name; not for FOREIGN. owner: of a LISTING. pid: of a NEW. */
void shard_cache_name_print(enum shard_cache_kind kind, const char *key, const char *owner,
                            uint64_t pid, char name[SHARD_CACHE_NAME]);

/* Of a LISTING: whose it is. */
struct shard_cache_owner {
  bool held;                       /* no process tells */
  long pid;                        /* 0: none */
  unsigned long long start, space; /* its start time, its PID namespace */
};

/* What a name says. owner may be NULL. */
enum shard_cache_kind shard_cache_name_parse(const char *name, struct shard_cache_owner *owner);
