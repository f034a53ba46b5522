/* SPDX-License-Identifier: MIT */
/*
 * config.h - the SHARD_ variables (variables.def), read once: by libshard.so when it is loaded, by
 * shardctl when it starts.
 *
 * The values are copied, because a host may overwrite its environment later. Nothing is allocated.
 * shard_config_check() and shard_config_complain() (libshard.h) report the first fault.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapter/api.h"
#include "base/words.h"

/*
 * Bytes for names while a listing is built: the default, where no cgroup has a tighter limit, and
 * the minimum of SHARD_BUILD_MEMORY.
 */
#define SHARD_BUILD_MEMORY ((uint64_t)256 << 20)
#define SHARD_BUILD_MEMORY_LEAST ((uint64_t)8 << 20)

/* The most bytes of a manifest that is fetched or unpacked. */
#define SHARD_MANIFEST_MOST ((uint64_t)8 << 30)

#define SHARD_EPOCH_UNSET (-1)

/* The line about a dataset of too few samples (shard_share_suffices()): name, samples, ranks. */
#define SHARD_TOO_FEW                                                                              \
  "SHARD_REMAINDER=drop: '%.300s' has fewer samples than ranks (%llu, %u ranks), so no rank "      \
  "would have any; start fewer ranks, or set SHARD_REMAINDER=repeat or keep"

#define SHARD_INCLUDE_ROOM 1024 /* bytes: the longest SHARD_INCLUDE and its NUL */

/* SHARD_ADAPTER, in the order of its words. */
enum shard_adapter {
  SHARD_ADAPTER_OFF,
  SHARD_ADAPTER_ON,
  SHARD_ADAPTER_COMPRESS /* lists are compressed even of a DLIO whose functions are known */
};

struct shard_config {
  /* A field for each X of variables.def. Texts and paths are NULL if the variable is not set. */
#define X(name, type, field, initial, kind, help) type field;
#define Y(name, kind, help)
#include "config/variables.def"
#undef X
#undef Y
  bool asked;       /* SHARD_DATASET is set, or a misspelt name means SHARD_DATASET */
  bool seeded;      /* SHARD_SEED is set */
  bool sampled;     /* SHARD_SAMPLE is set */
  bool directories; /* SHARD_DATASET names directories */
  bool buckets;     /* SHARD_DATASET names buckets without a directory */
  char error[384];  /* the line about the first bad variable; "": all are good */
};

/*
 * Fills the configuration from the environment; the first fault goes into `error`. Makes relative
 * paths of SHARD_DATASET, SHARD_LISTING and SHARD_STATS absolute, in the environment too, so that a
 * child started in another directory finds the same files. Not thread-safe: called before any
 * thread exists. Keeps errno.
 */
void shard_config_init(char *const *environment);

/* Makes the configuration that of a library that serves no dataset and reports no fault. */
void shard_config_disable(void);

/* Returns the configuration, static storage; before shard_config_init() it holds the defaults. */
const struct shard_config *shard_config(void);

/* Returns whether files are shuffled in an epoch that shard_epoch_read() has returned. */
static inline bool shard_epoch_shuffles(int64_t epoch) {
  return epoch >= 0 || shard_config()->seeded;
}

/* Returns the number of such an epoch; 0 if SHARD_EPOCH is not set. */
static inline uint64_t shard_epoch_number(int64_t epoch) { return epoch < 0 ? 0 : (uint64_t)epoch; }

/* Prints a message as shard_log() does, from a format of printf(3). Keeps errno. */
__attribute__((format(printf, 2, 3))) void shard_say(int level, const char *format, ...);

#define SHARD_CONFIG_TEXT 256

/*
 * Returns whether an entry "NAME=value" of an environment is a SHARD_ variable that is empty, or
 * that libshard does not have: shard_config_init() may report it. Pure.
 */
bool shard_config_is_foreign(const char *entry);

/* A variable, described for people. */
struct shard_config_variable {
  const char *name;                /* static storage */
  char value[SHARD_CONFIG_TEXT];   /* which values are valid */
  char initial[SHARD_CONFIG_TEXT]; /* the default; "" if there is none */
};

/* Describes the variable at an index of the table. Returns false past the end. */
bool shard_config_describe(size_t i, struct shard_config_variable *out);
