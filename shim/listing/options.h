/* SPDX-License-Identifier: MIT */
/*
 * options.h - parses and prints the options of a listing: the words of shard_dataset_open()'s
 * `options`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "config/config.h"

/* Bytes of the longest text of shard_options_format(), and a NUL. */
#define SHARD_OPTIONS_TEXT 3328

/* The options of a listing. */
struct shard_options {
  /* SHARD_ORDER_PATH or SHARD_ORDER_BASENAME; for a manifest also SHARD_ORDER_KEEP or
   * SHARD_ORDER_DIRECTORY; SHARD_ORDER_SAMPLE if `sample` is not SHARD_SAMPLE_FILE. */
  uint32_t order;
  enum shard_sample sample;
  uint32_t depth;                   /* levels of directories to read; 0: all */
  uint32_t exact;                   /* only entries at this level; 0: at any level */
  bool hidden;                      /* list names that begin with '.' */
  bool follow;                      /* walk through links to directories */
  bool attributes;                  /* store d_type and d_ino, and format.h's "others" */
  char include[SHARD_INCLUDE_ROOM]; /* fnmatch(3) patterns separated by ':'; "": everything */
};

/*
 * Parses the words of a text into o, with defaults for the missing words.
 * Errors: -EINVAL and a line in err[size] that names the bad word.
 */
int shard_options_parse(struct shard_options *o, const char *text, char *err, size_t size);

/*
 * Sets the rule of samples. Any rule but SHARD_SAMPLE_FILE also sets SHARD_ORDER_SAMPLE in place of
 * SHARD_ORDER_PATH.
 */
void shard_options_set_sample(struct shard_options *o, enum shard_sample sample);

/*
 * Sets the order by word[length].
 * Returns false if the word names no order, or an order that cannot be asked for: "keep", or the
 * word of SHARD_ORDER_SAMPLE.
 */
bool shard_options_parse_order(struct shard_options *o, const char *word, size_t length);

/*
 * Prints the canonical text of the options: the words of all fields in a fixed order; `sample` only
 * if it is not SHARD_SAMPLE_FILE. The text is a part of a listing's KEY.
 */
void shard_options_format(const struct shard_options *o, char *buf, size_t size);

/* Returns whether basename[length], which ends with NUL, matches `include`. */
bool shard_options_match(const struct shard_options *o, const char *basename, size_t length);

/* Returns whether the basename of path[length], which ends with NUL, matches `include`. */
bool shard_options_match_path(const struct shard_options *o, const char *path, size_t length);
