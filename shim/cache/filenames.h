/* SPDX-License-Identifier: MIT */
/*
 * filenames.h - prints and parses the names of files in the cache directory.
 *
 *   KEY.OWNER.listing   a job's listing; never changes. Each process that has the listing mapped
 *                       holds a shared lock on the file (lock.h)
 *   KEY.lock            locked (flock) by the process that makes a file of this KEY, and by its
 *                       shardctl
 *   KEY.new.PID[.*]     a file that is being made; left over if no process has the lock
 *   KEY.perm            a permutation or positions that the adapter keeps (permutation.c)
 *
 * KEY is 32 hexadecimal digits. OWNER names the listing's job: PID-START-NAMESPACE, the job's
 * process; "held", a job that ends with its last process; or "named", a job with a name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_CACHE_KEY 33   /* a KEY and a NUL */
#define SHARD_CACHE_NAME 160 /* bytes: room for any name of the cache */

/* The kind of a file in the cache directory, by its name. */
enum shard_cache_kind {
  SHARD_CACHE_FOREIGN, /* no file of libshard */
  SHARD_CACHE_LISTING,
  SHARD_CACHE_LOCK,
  SHARD_CACHE_NEW,
  SHARD_CACHE_PERMUTATION
};

/*
 * Prints the name of a file of any kind but FOREIGN.
 * owner: the OWNER of a LISTING, else NULL. pid: the PID of a NEW.
 */
void shard_cache_name_print(enum shard_cache_kind kind, const char *key, const char *owner,
                            uint64_t pid, char name[SHARD_CACHE_NAME]);

/* The owner of a LISTING: the job's process, if one process stands for the job. */
struct shard_cache_owner {
  bool held;                       /* the job ends with its last process */
  long pid;                        /* of the job's process; 0: none, the job is held or named */
  unsigned long long start, space; /* the process's start time and PID namespace */
};

/*
 * Returns the kind of a file by its name.
 * owner: gets the owner if the kind is LISTING, and is undefined for any other; or NULL.
 */
enum shard_cache_kind shard_cache_name_parse(const char *name, struct shard_cache_owner *owner);
