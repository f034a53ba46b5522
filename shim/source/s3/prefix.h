/* SPDX-License-Identifier: MIT */
/*
 * prefix.h - a prefix of a bucket as the source of a listing: keys become names (shardctl only).
 *
 * A name is what follows the prefix's last slash in a key. A key that ends with a slash is none: a
 * console or a mount has made it, to stand for a directory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "build/build.h"
#include "source/s3/s3.h"

struct shard_s3_prefix {
  struct shard_s3_listing listing; /* the caller fills it, but for its functions */
  /* Filled. */
  uint64_t markers; /* keys that end with a slash */
};

/* s3://bucket/prefix, as listings name their source. Malloc'd; NULL without memory. */
char *shard_s3_prefix_name(const struct shard_s3_url *url);

/* Write the listing `file` of its names, as shard_build(). */
int shard_s3_prefix_build(struct shard_s3_prefix *bucket, const struct shard_options *options,
                          const char *file, struct shard_build_result *result, char *err,
                          size_t size);
