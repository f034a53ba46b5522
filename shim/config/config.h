/* SPDX-License-Identifier: MIT */
/*
 * config.h - the SHARD_ variables (variables.def), read once: by libshard.so when it is loaded, by
 * shardctl when it starts.
 *
 * The values are copied, for a host may change or overwrite its environment later. Nothing is
 * allocated. Once shard_config_init() has returned, any thread and forked child may read them.
 */
#ifndef SHARD_CONFIG_CONFIG_H
#define SHARD_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "libshard.h"

/* Bytes for names while a listing is built: SHARD_BUILD_MEMORY's default, and the least of it. */
#define SHARD_BUILD_MEMORY ((uint64_t)256 << 20)
#define SHARD_BUILD_MEMORY_LEAST ((uint64_t)8 << 20)

#define SHARD_INCLUDE_ROOM 1024 /* for SHARD_INCLUDE and its NUL */

struct shard_config {
  /* One field for each variable that has one. Texts and paths: NULL if it is not set. */
#define X(name, type, field, initial, kind, help) type field;
#define Y(name, kind, help)
#include "config/variables.def"
#undef X
#undef Y
  bool shuffle;    /* SHARD_SEED or SHARD_EPOCH is set */
  bool seeded;     /* SHARD_SEED is set */
  bool epoch_auto; /* count passes from `epoch` on */
  char error[384]; /* what is wrong with the variables; "" if nothing */
};

/*
 * Fill the configuration from the environment. Relative paths of SHARD_DATASET, SHARD_LISTING and
 * SHARD_STATS are made absolute, in the environment too: a child that is started in another
 * directory must mean the same. Called before any thread exists. What is wrong is in `error`;
 * shard_config_check() and shard_config_complain() (libshard.h) tell of it.
 */
void shard_config_init(char *const *environment);

/* Valid after shard_config_init(); all defaults before. */
const struct shard_config *shard_config(void);

#define SHARD_CONFIG_TEXT 256

/* A variable, for people. */
struct shard_config_variable {
  const char *name;
  char value[SHARD_CONFIG_TEXT];   /* what it takes */
  char initial[SHARD_CONFIG_TEXT]; /* the default; "" if there is none */
};

/* Describe the variable at a place of the table. false past the end. */
bool shard_config_describe(size_t place, struct shard_config_variable *out);

#endif
