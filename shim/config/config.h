/* SPDX-License-Identifier: MIT */
/*
 * config.h - the SHARD_ variables (variables.def), read once: by libshard.so when it is loaded, by
 * shardctl when it starts.
 *
 * The values are copied, as a host may overwrite its environment later. Nothing is allocated.
 * Once shard_config_init() has returned, any thread and forked child may read them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "libshard.h"

/* Bytes for names while a listing is built: the default, where cgroups have no tighter limit, and
 * the minimum of SHARD_BUILD_MEMORY. */
#define SHARD_BUILD_MEMORY ((uint64_t)256 << 20)
#define SHARD_BUILD_MEMORY_LEAST ((uint64_t)8 << 20)

/* Bytes that a manifest may have, which is fetched or unpacked. */
#define SHARD_MANIFEST_MOST ((uint64_t)8 << 30)

#define SHARD_EPOCH_UNSET (-1)

/* The line about a dataset of too few samples (shard_share_suffices()): its name, samples and
 * ranks. */
#define SHARD_TOO_FEW                                                                              \
  "SHARD_REMAINDER=drop: '%.300s' has fewer samples than ranks (%llu, %u ranks), so no rank "      \
  "would have any; start fewer ranks, or set SHARD_REMAINDER=repeat or keep"

#define SHARD_INCLUDE_ROOM 1024 /* bytes: the longest SHARD_INCLUDE and its NUL */

/* SHARD_ADAPTER, in the order of its words. */
enum shard_adapter {
  SHARD_ADAPTER_OFF,
  SHARD_ADAPTER_ON,
  SHARD_ADAPTER_COMPRESS /* of a DLIO that is known only what it has made is compressed, too */
};

struct shard_config {
  /* A field for each X of variables.def. Texts and paths: NULL if the variable is not set. */
#define X(name, type, field, initial, kind, help) type field;
#define Y(name, kind, help)
#include "config/variables.def"
#undef X
#undef Y
  bool asked;       /* SHARD_DATASET is set, or meant by a misspelt name */
  bool seeded;      /* SHARD_SEED is set */
  bool sampled;     /* SHARD_SAMPLE is set */
  bool directories; /* SHARD_DATASET names directories, */
  bool buckets;     /* and buckets themselves */
  char error[384];  /* the line about the first bad variable; "": all are good */
};

/*
 * Fill the configuration from the environment. Makes relative paths of SHARD_DATASET, SHARD_LISTING
 * and SHARD_STATS absolute, in the environment too, so that a child started in another directory
 * means the same. Call it before any thread exists. It keeps the first fault in `error`;
 * shard_config_check() and shard_config_complain() (libshard.h) report it. errno is left alone.
 */
void shard_config_init(char *const *environment);

/* From now on the configuration is that of a library that serves nothing and finds no fault. */
void shard_config_stand_by(void);

/* The configuration, in static storage; before shard_config_init() it holds the defaults. */
const struct shard_config *shard_config(void);

/* Whether files are shuffled in an epoch of shard_epoch_read()'s, and the number of the epoch. */
static inline bool shard_epoch_shuffles(int64_t epoch) {
  return epoch >= 0 || shard_config()->seeded;
}
static inline uint64_t shard_epoch_number(int64_t epoch) { return epoch < 0 ? 0 : (uint64_t)epoch; }

/* As shard_log(), of a format of printf(3). */
__attribute__((format(printf, 2, 3))) void shard_say(int level, const char *format, ...);

#define SHARD_CONFIG_TEXT 256

/* Whether an entry "NAME=value" of an environment is a SHARD_ variable that is empty or none of
 * ours: shard_config_init() may complain of it. Pure. */
bool shard_config_is_foreign(const char *entry);

/* A variable, described for people. */
struct shard_config_variable {
  const char *name;                /* static storage */
  char value[SHARD_CONFIG_TEXT];   /* what it takes */
  char initial[SHARD_CONFIG_TEXT]; /* the default; "" if there is none */
};

/* Describe the variable at a place of the table. false past the end. */
bool shard_config_describe(size_t place, struct shard_config_variable *out);
