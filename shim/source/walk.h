/* SPDX-License-Identifier: MIT */
/*
 * walk.h - finds the names below a directory, by getdents64 in several threads (shardctl only).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/format.h"
#include "listing/options.h"

/* Receives what a walk finds. Paths are relative to the root, NUL-terminated, and live until the
 * function returns. A negative errno of any function ends the walk, which returns it. */
struct shard_walk_sink {
  void *context;
  /* A non-directory; ino and type are the kernel's d_ino and d_type. */
  int (*entry)(void *context, const char *path, size_t length, uint64_t ino, uint8_t type);
  /* With options->attributes: a directory, a link to one, or a name that is not included. */
  int (*other)(void *context, const char *path, size_t length, uint64_t ino, uint8_t type);
  /* A directory that was read to its end, as it was at that moment. */
  int (*directory)(void *context, const struct shard_dir *id, const char *path);
  /* With options->chunk: the next entry is of this chunk. */
  void (*chunk)(void *context, uint64_t number);
};

struct shard_walk_facts {
  uint64_t dirs_hidden, dir_links; /* of struct shard_listing_info */
  char error[512];                 /* what went wrong, for people; it names the path */
};

#define SHARD_WALKERS 4

/*
 * Walk `root` with a thread for each of sinks[threads], at most SHARD_WALKERS; a sink is called by
 * its thread alone. 0 or a negative errno.
 *
 * If a directory changes while it is read, its names may be incomplete: -EAGAIN. If it changed less
 * than a clock tick before it is read, the walk waits for a tick first, so that no later change can
 * leave the ctime as it is (git's "racy" rule).
 *
 * With options->chunk one thread reads everything, in the order that chunks are counted in.
 *
 * in_parts: several threads may read one directory where the file system allows it. If that turns
 * out not to work: -EAGAIN, too; walk again without.
 */
int shard_walk(const char *root, const struct shard_options *options, struct shard_walk_sink *sinks,
               size_t threads, bool in_parts, struct shard_walk_facts *facts);
