/* SPDX-License-Identifier: MIT */
/*
 * walk.h - finds the names below a directory, by getdents64 in several threads (shardctl only).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/options.h"

struct shard_intake_hand;

struct shard_walk_facts {
  uint64_t dirs_hidden, dir_links; /* of struct shard_listing_info */
  char error[512];                 /* what went wrong, for people; it names the path */
};

#define SHARD_WALKERS 4

/*
 * Walk `root` with a thread for each of hands[threads], at most SHARD_WALKERS, which get what it
 * finds (build/intake.h). 0 or a negative errno.
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
int shard_walk(const char *root, const struct shard_options *options,
               struct shard_intake_hand *hands, size_t threads, bool in_parts,
               struct shard_walk_facts *facts);
