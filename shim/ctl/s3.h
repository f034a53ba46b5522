/* SPDX-License-Identifier: MIT */
/*
 * s3.h - a bucket as the source of a command.
 */
#ifndef SHARD_CTL_S3_H
#define SHARD_CTL_S3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_options;
struct shard_build_means;
struct shard_build_result;

struct ctl_s3 {
  const char *start_after, *end_before; /* whole keys; NULL: none */
  bool anonymous;
  /* Filled. */
  uint64_t markers, requests, retries;
};

/*
 * List s3://bucket/prefix into the listing `file`. CTL_DONE, or CTL_FAILED or CTL_USAGE after a
 * message.
 */
int ctl_s3_build(const char *url, struct ctl_s3 *how, const struct shard_options *options,
                 const struct shard_build_means *means, const char *file,
                 struct shard_build_result *result);

/* The part of a url that names are relative to: "s3://bucket/a/" of s3://bucket/a/b. Malloc'd. */
char *ctl_s3_root(const char *url);

#endif
