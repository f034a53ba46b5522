/* SPDX-License-Identifier: MIT */
/*
 * walk.h - the names below a directory, by getdents64 in several threads (shardctl only).
 */
#ifndef SHARD_SOURCE_WALK_H
#define SHARD_SOURCE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "listing/options.h"

/* Receives what a walk finds; a negative errno from any of them ends the walk with it. */
struct shard_walk_sink {
  void *context;
  /* A non-directory, its path relative to the root; d_ino and d_type as the kernel gives them. */
  int (*entry)(void *context, const char *path, size_t length, uint64_t ino, uint8_t type);
  /* With options->attributes: a directory, a link to one, or a name that is not included. */
  int (*other)(void *context, const char *path, size_t length, uint64_t ino, uint8_t type);
  /* A directory that was read to its end, with its identity and mtime as of then. */
  int (*directory)(void *context, uint64_t dev, uint64_t ino, struct timespec mtime,
                   const char *path);
};

struct shard_walk_facts {
  /* Directories at the deepest level whose names match `include` (see libshard.h). */
  uint64_t dirs_hidden;
  /* Links to directories that were not walked through. */
  uint64_t dir_links;
  /* What went wrong, for people: names the path. */
  char error[512];
};

#define SHARD_WALKERS 4

/*
 * Walk `root` with a thread for each of sinks[threads], at most SHARD_WALKERS; a sink is called by
 * its thread alone. A directory that changes while it is read is an error (-EAGAIN), for its names
 * may be incomplete; one that changed less than a clock tick before it is read is waited for first,
 * so that a later change cannot leave the mtime as it is (git's "racy" rule). 0 or negative errno.
 * in_parts: several threads may read one directory, where that can be done; if it turns out not
 * to work that is -EAGAIN, too: walk again without.
 */
int shard_walk(const char *root, const struct shard_options *options, struct shard_walk_sink *sinks,
               size_t threads, bool in_parts, struct shard_walk_facts *facts);

#endif
