/* SPDX-License-Identifier: MIT */
/*
 * options.h - what a listing contains: the words of shard_dataset_open()'s `options`. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "config/config.h"

/* Bytes for shard_options_format()'s longest text. */
#define SHARD_OPTIONS_TEXT 3328

struct shard_options {
  /* SHARD_ORDER_PATH or _BASENAME; of a manifest also _KEEP or _DIRECTORY; _SAMPLE if `sample` is
   * no file */
  uint32_t order;
  enum shard_sample sample;
  uint32_t depth;                   /* levels of directories to read; 0: all */
  uint32_t exact;                   /* entries at this level only; 0: any */
  bool hidden;                      /* with names that begin with '.' */
  bool follow;                      /* walk through links to directories */
  bool attributes;                  /* with d_type and d_ino, and with format.h's "others" */
  char include[SHARD_INCLUDE_ROOM]; /* fnmatch(3) patterns separated by ':'; "": everything */
};

/* Parse the words. 0, or -EINVAL and a line in err[size] that names the bad word. */
int shard_options_parse(struct shard_options *o, const char *text, char *err, size_t size);

/* Set the rule of samples, and the order that goes with it, in place of order PATH. */
void shard_options_set_sample(struct shard_options *o, enum shard_sample sample);

/*
 * Set the order by its word. false if the word names no order, or is "keep": that cannot be asked
 * for.
 */
bool shard_options_parse_order(struct shard_options *o, const char *word, size_t length);

/* Print the canonical text, part of a listing's key: every field, in a fixed order. */
void shard_options_format(const struct shard_options *o, char *buf, size_t size);

/* Whether a basename matches `include`. */
bool shard_options_match(const struct shard_options *o, const char *basename, size_t length);

/* The same for the basename of path[length], which a NUL follows. */
bool shard_options_match_path(const struct shard_options *o, const char *path, size_t length);
