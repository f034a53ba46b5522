/* SPDX-License-Identifier: MIT */
/*
 * collect.h - what is removed from the cache: files that no process has open, of jobs that are
 * gone. Whoever makes a listing does that, and shardctl cache gc.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct shard_collect {
  bool dry;           /* only tell */
  int64_t older_than; /* >= 0: all of this age in seconds, whosever they are; < 0: the rules */
  void (*tell)(void *context, const char *name, const struct stat *st,
               const char *why); /* NULL: not */
  void *context;
};

/*
 * Remove from the cache directory:
 *   a listing     whose job's process is gone; of a job that ends with its last process, at once;
 *                 of any other, whose process this one cannot see, after 30 days
 *   kept bytes    after a day
 *   what a killed process has left, and lock files
 * and only while no process holds a lock of the file. 0, or a negative errno: it cannot be read.
 * Allocates nothing; errno may change.
 */
int shard_collect(const char *cache, const struct shard_collect *how);

/* Call `each` for the names in a directory, but "." and "..", read by the kernel: libc's calls are
 * ours in a host. 0 or a negative errno. */
int shard_collect_each(const char *path, void (*each)(int fd, const char *name, void *context),
                       void *context);
