/* SPDX-License-Identifier: MIT */
/*
 * prefix.h - takes a prefix of a bucket as the source of a listing: keys become names (shardctl
 * only).
 *
 * A name is what follows the prefix's last slash in a key. A key that ends with a slash becomes no
 * name: a console or a mount has made the key, to stand for a directory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "build/build.h"
#include "source/s3/s3.h"

struct shard_s3_prefix {
  struct shard_s3_listing listing; /* set by the caller, except key and context */
  /* Set by shard_s3_prefix_build(): */
  uint64_t markers; /* keys that end with a slash */
};

/*
 * Returns s3://bucket/prefix, as listings name their source; malloc'd, the caller's to free. NULL:
 * no memory.
 */
char *shard_s3_prefix_name(const struct shard_s3_url *url);

/* Writes the listing `file` of a prefix's names, as shard_build() does. */
int shard_s3_prefix_build(struct shard_s3_prefix *bucket, const struct shard_options *options,
                          const char *file, struct shard_build_result *result, char *err,
                          size_t size);
