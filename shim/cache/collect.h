/* SPDX-License-Identifier: MIT */
/*
 * collect.h - removes files from the cache that no process has open and whose jobs have ended. A
 * process calls shard_collect() after it has made a listing; `shardctl cache gc` calls it, too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Which files are removed, and the function that is told of each file but lock files. */
struct shard_collect {
  bool dry;           /* remove nothing: only call `tell` */
  int64_t older_than; /* >= 0: all files at least so old, in seconds; < 0: by the rules */
  void (*tell)(void *context, const char *name, const struct stat *st,
               const char *why); /* or NULL */
  void *context;
};

/*
 * Removes files of this user from the cache directory `cache`. A file on which a process holds a
 * lock stays. The rules:
 *   a listing         if the job's process has ended. The listing of a job that ends with its last
 *                     process: at once. The listing of a job whose process this process cannot see,
 *                     or that has none: after 30 days
 *   kept bytes        after a day
 *   unfinished files  if the process that was making the file was killed
 *   lock files        at once
 * Errors: a negative errno: the directory cannot be opened.
 */
int shard_collect(const char *cache, const struct shard_collect *how);

/*
 * Calls `each` with each name in a directory except "." and "..". Reads by system calls, because
 * libshard.so replaces libc's listing calls in a host.
 * fd: the directory's descriptor.
 * Errors: a negative errno: the directory cannot be opened. An error of reading ends the names.
 */
int shard_collect_each(const char *path, void (*each)(int fd, const char *name, void *context),
                       void *context);
