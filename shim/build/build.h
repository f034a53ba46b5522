/* SPDX-License-Identifier: MIT */
/*
 * build.h - from a source to a listing file (shardctl only).
 */
#ifndef SHARD_BUILD_BUILD_H
#define SHARD_BUILD_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "listing/options.h"

struct shard_source;

struct shard_build_result {
  uint64_t entries;
  uint64_t bytes;
  uint64_t directories;
  char digest[65];
};

/* How a listing is built. Zeros: the defaults. */
struct shard_build_means {
  size_t memory;      /* bytes for names; SHARD_BUILD_MEMORY_LEAST at least, 0: the default */
  const char *tmpdir; /* where names go that do not fit; NULL: TMPDIR, then beside the file */
  bool progress;      /* a line on stderr now and then */
  bool unique;        /* a name that comes twice counts once; else that is an error, unless
                         options->order is SHARD_ORDER_KEEP or _DIRECTORY */
};

/*
 * Read a source (build/intake.h) and write the listing `file`. 0, or a negative errno and a line in
 * err[size] that names the path at fault. An older `file` stays untouched on failure. A directory
 * that changes while it is read is read anew, a few times.
 *
 * Attributes of names that come without are made of the position; they go with the orders PATH and
 * DIRECTORY only.
 */
int shard_build(const struct shard_source *source, const struct shard_options *options,
                const struct shard_build_means *means, const char *file,
                struct shard_build_result *result, char *err, size_t size);

#endif
