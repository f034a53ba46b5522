/* SPDX-License-Identifier: MIT */
/*
 * config.h - the SHARD_ variables, read once when the library is loaded.
 *
 * The values are copied, for a host may change or overwrite its environment later. No allocation.
 */
#ifndef SHARD_CONFIG_CONFIG_H
#define SHARD_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libshard.h"

/* Every variable: X(name, what it is for). Those of later versions are refused by name. */
#define SHARD_VARIABLES(X)                                                                         \
  X(VIEW, "auto, global, shard or off")                                                            \
  X(DATASET, "directories to serve, separated by ':'; DIR=s3://bucket/prefix for a mounted one")   \
  X(RANK, "rank of this process, over the launcher's")                                             \
  X(SIZE, "number of ranks, over the launcher's")                                                  \
  X(STRATEGY, "range, stride or hash")                                                             \
  X(SEED, "a number: shuffle by it")                                                               \
  X(EPOCH, "a number, or auto: each full pass is an epoch")                                        \
  X(WINDOW, "names in the window of a streaming shuffle")                                          \
  X(JOB, "a text that all ranks of the job have, and no other job")                                \
  X(INCLUDE, "patterns of names that are sharded, separated by ':'")                               \
  X(LISTING, "a listing built before by shardctl index, or a manifest (.txt)")                     \
  X(LISTING_BUILD, "first: rank 0 makes SHARD_LISTING, the others wait for it")                    \
  X(CACHE_DIR, "directory for listings")                                                           \
  X(BUILD_MEMORY, "bytes, or K, M, G: memory of shardctl index, at least 8M")                      \
  X(TMPDIR, "a folder on disk for temporary files of shardctl index")                              \
  X(TIMEOUT, "seconds to wait for a listing")                                                      \
  X(STATS, "a path for the statistics of each rank: %r is the rank, %% a percent sign")            \
  X(S3_CONNECTIONS, "requests to S3 at a time")                                                    \
  X(S3_ADDRESSING, "path, virtual or auto")                                                        \
  X(ADAPTER, "on or off")                                                                          \
  X(LOG, "error, warn, info or debug")

enum shard_strategy { SHARD_STRATEGY_RANGE, SHARD_STRATEGY_STRIDE, SHARD_STRATEGY_HASH };

/* Whether a bucket is named in the host (virtual) or in the path. */
enum shard_s3_addressing { SHARD_S3_AUTO, SHARD_S3_PATH, SHARD_S3_VIRTUAL };

enum shard_log_level { SHARD_LOG_ERROR, SHARD_LOG_WARN, SHARD_LOG_INFO, SHARD_LOG_DEBUG };

struct shard_config {
  enum shard_view view;
  enum shard_strategy strategy;
  enum shard_log_level log;
  bool adapter, listing_first;
  unsigned timeout; /* seconds */
  bool shuffle;     /* SHARD_SEED or SHARD_EPOCH is set */
  bool seeded;      /* SHARD_SEED is set */
  bool epoch_auto;  /* count passes from `epoch` on */
  uint64_t seed, epoch;
  unsigned window; /* names */
  unsigned s3_connections;
  enum shard_s3_addressing s3_addressing;
  /* NULL where the variable is not set. */
  const char *dataset, *include, *listing, *cache_dir, *job, *stats;
  char error[384]; /* what is wrong with the variables; "" if nothing */
};

#define SHARD_WINDOW_DEFAULT 1024
#define SHARD_WINDOW_MOST 1000000
#define SHARD_S3_CONNECTIONS_DEFAULT 32
#define SHARD_S3_CONNECTIONS_MOST 256

/*
 * Fill the configuration from the environment, and make relative SHARD_DATASET, SHARD_LISTING and
 * SHARD_STATS in it absolute.
 * Called once, before any thread exists.
 */
void shard_config_init(char *const *environment);

/* Valid after shard_config_init(); all defaults before. */
const struct shard_config *shard_config(void);

#endif
