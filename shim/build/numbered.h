/* SPDX-License-Identifier: MIT */
/*
 * numbered.h - names for SHARD_ORDER_DIRECTORY: those of a directory keep the order they came in.
 *
 * The sorter gets them in the order of paths, each with one more slash and its number before the
 * basename: DIR/ / NUMBER BASENAME. No byte of a number is a NUL or a slash. Pure.
 *
 * And names for SHARD_ORDER_SAMPLE, as codec.h orders them: with a byte before the basename, and
 * for the stem's dot.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "listing/codec.h"

#define SHARD_NUMBERED_MORE ((size_t)9) /* bytes: the slash and the number */

/* Write the numbered name into to[length + SHARD_NUMBERED_MORE]. Returns its length. */
static inline size_t shard_numbered_put(char *to, const char *name, size_t length,
                                        uint64_t number) {
  size_t base = shard_codec_basename(name, length);
  memcpy(to, name, base);
  to[base] = '/';
  for (size_t k = SHARD_NUMBERED_MORE - 1; k > 0; k--) {
    to[base + k] = (char)(0x80 | (number & 0x7f));
    number >>= 7;
  }
  memcpy(to + base + SHARD_NUMBERED_MORE, name + base, length - base);
  return length + SHARD_NUMBERED_MORE;
}

/* Take the slash and number out again, in place. Returns the length. */
static inline size_t shard_numbered_strip(char *name, size_t length) {
  size_t base = shard_codec_basename(name, length), number = SHARD_NUMBERED_MORE - 1;
  memmove(name + base - 1, name + base + number, length - base - number);
  return length - SHARD_NUMBERED_MORE;
}

#define SHARD_SAMPLED_MORE ((size_t)1)

/* Write the name for order SAMPLE into to[length + SHARD_SAMPLED_MORE]: its length. */
static inline size_t shard_sampled_put(char *to, const char *name, size_t length) {
  size_t base = shard_codec_basename(name, length);
  memcpy(to, name, base);
  to[base] = SHARD_CODEC_STEM;
  memcpy(to + base + 1, name + base, length - base);
  char *dot = length - base > 1 ? memchr(to + base + 2, '.', length - base - 1) : NULL;
  if (dot) {
    *dot = SHARD_CODEC_STEM;
  }
  return length + SHARD_SAMPLED_MORE;
}

/* Make it the name again, in place. Returns the length. */
static inline size_t shard_sampled_strip(char *name, size_t length) {
  char *base = memchr(name, SHARD_CODEC_STEM, length);
  size_t rest = length - (size_t)(base - name) - 1;
  memmove(base, base + 1, rest);
  char *dot = memchr(base, SHARD_CODEC_STEM, rest);
  if (dot) {
    *dot = '.';
  }
  return length - SHARD_SAMPLED_MORE;
}
