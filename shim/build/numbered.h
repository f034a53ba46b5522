/* SPDX-License-Identifier: MIT */
/*
 * numbered.h - the forms of names that the sorter gets for the orders DIRECTORY and SAMPLE. Pure.
 *
 * Names in these forms are sorted in order PATH.
 *
 * SHARD_ORDER_DIRECTORY: the names of a directory keep the order in which they came. The form has
 * one more slash and the name's number before the basename: DIR/ / NUMBER BASENAME. No byte of a
 * number is a NUL or a slash.
 *
 * SHARD_ORDER_SAMPLE, which listing/codec.h describes: the form has the byte SHARD_CODEC_STEM
 * before the basename, and in place of the dot that ends the stem.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "listing/codec.h"

#define SHARD_NUMBERED_MORE ((size_t)9) /* bytes of the slash and the number */

/*
 * Writes the form of a name for order DIRECTORY.
 * to: length + SHARD_NUMBERED_MORE bytes.
 * number: names with lower numbers come first in their directory.
 * Returns the length of the form.
 */
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

/* Removes the slash and the number from name[length] in place. Returns the name's length. */
static inline size_t shard_numbered_strip(char *name, size_t length) {
  size_t base = shard_codec_basename(name, length), number = SHARD_NUMBERED_MORE - 1;
  memmove(name + base - 1, name + base + number, length - base - number);
  return length - SHARD_NUMBERED_MORE;
}

#define SHARD_SAMPLED_MORE ((size_t)1) /* byte before the basename */

/*
 * Writes the form of a name for order SAMPLE.
 * to: length + SHARD_SAMPLED_MORE bytes.
 * Returns the length of the form.
 */
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

/*
 * Turns name[length], in the form for order SAMPLE, back into the name in place. Returns its
 * length.
 */
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
