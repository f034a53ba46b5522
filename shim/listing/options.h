/* SPDX-License-Identifier: MIT */
/*
 * options.h - what a listing contains: the words of shard_dataset_open()'s `options`.
 */
#ifndef SHARD_LISTING_OPTIONS_H
#define SHARD_LISTING_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

/* Room for shard_options_format()'s longest text. */
#define SHARD_OPTIONS_TEXT 3328

struct shard_options {
  uint32_t order;  /* SHARD_ORDER_PATH or _BASENAME; _KEEP and _DIRECTORY of a manifest only */
  uint32_t depth;  /* levels of directories to read; 0: all */
  uint32_t exact;  /* entries at this level only; 0: any */
  bool hidden;     /* names that begin with '.' too */
  bool follow;     /* walk through links to directories */
  bool attributes; /* d_type and d_ino, and what is not an entry (format.h's "others") */
  char include[SHARD_INCLUDE_ROOM]; /* fnmatch(3) patterns, ':'-separated; "": everything */
};

/* 0, or -EINVAL with a line in err[size] that names the word at fault. */
int shard_options_parse(struct shard_options *o, const char *text, char *err, size_t size);

/*
 * Set the order by its word. false if there is none of that name, or it cannot be asked for: "keep"
 * is told of listings only.
 */
bool shard_options_parse_order(struct shard_options *o, const char *word, size_t length);

/* The canonical text, part of a listing's key. Every field, in one order. */
void shard_options_format(const struct shard_options *o, char *buf, size_t size);

/* Whether a basename is included. Thread-safe. */
bool shard_options_match(const struct shard_options *o, const char *basename, size_t length);

#endif
