/* SPDX-License-Identifier: MIT */
/*
 * codec.h - codes numbers and compares names, for the reader and the writer of listings. All
 * functions are pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * The order of the names in a listing.
 *
 *   PATH       by the bytes of the path
 *   BASENAME   by basename, then by path
 *   KEEP       the order of the manifest, duplicates included
 *   DIRECTORY  by the directory's path, followed by two slashes. A directory's own names lie
 *              together, in the manifest's order, and all names below the directory lie together.
 *              No component is empty
 *   SAMPLE     a directory's own files by their stems, then the names below the directory, so that
 *              the files of a sample (samples.h) lie together. By bytes, with byte 1 in place of
 *              the dot that ends a stem, and in front of a basename; no name has byte 1
 */
enum {
  SHARD_ORDER_PATH = 0,
  SHARD_ORDER_BASENAME = 1,
  SHARD_ORDER_KEEP = 2,
  SHARD_ORDER_DIRECTORY = 3,
  SHARD_ORDER_SAMPLE = 4
};

#define SHARD_CODEC_STEM 1 /* the byte that order SAMPLE has in place of a stem's dot */

/* Returns whether a listing in an order may have a name twice, and cannot be searched by name. */
static inline int shard_codec_is_manifest_order(uint32_t order) {
  return order == SHARD_ORDER_KEEP || order == SHARD_ORDER_DIRECTORY;
}

/* Writes a varint (LEB128): at most 5 bytes for 32 bits, 10 for 64. Returns the bytes written. */
static inline size_t shard_codec_put_varint(uint8_t *p, uint64_t v) {
  size_t n = 0;
  while (v >= 0x80) {
    p[n++] = (uint8_t)(v | 0x80);
    v >>= 7;
  }
  p[n++] = (uint8_t)v;
  return n;
}

/*
 * Reads a varint of at most `most` bytes at *p, and moves *p behind the varint.
 * end: where the bytes end.
 * Errors: -1: the varint is cut off or too long.
 */
static inline int shard_codec_read_varint(const uint8_t **p, const uint8_t *end, unsigned most,
                                          uint64_t *v) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 7 * most && *p < end; shift += 7) {
    uint8_t byte = *(*p)++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      *v = value;
      return 0;
    }
  }
  return -1;
}

/* Reads a varint of 32 bits, as shard_codec_read_varint() does. */
static inline int shard_codec_get_varint(const uint8_t **p, const uint8_t *end, uint32_t *v) {
  uint64_t value;
  int rc = shard_codec_read_varint(p, end, 5, &value);
  if (rc == 0) {
    *v = (uint32_t)value;
  }
  return rc;
}

/* Reads a varint of 64 bits, as shard_codec_read_varint() does. */
static inline int shard_codec_get_varint64(const uint8_t **p, const uint8_t *end, uint64_t *v) {
  return shard_codec_read_varint(p, end, 10, v);
}

/*
 * Adds one to the decimal number that ends before `end`. The number must not be all nines.
 * Returns the address of the first digit that has changed.
 */
static inline char *shard_codec_count_up(char *end) {
  while (*--end == '9') {
    *end = '0';
  }
  ++*end;
  return end;
}

/* Writes a number as `width` decimal digits, without a NUL. */
static inline void shard_codec_put_digits(char *to, size_t width, uint64_t number) {
  while (width-- > 0) {
    to[width] = (char)('0' + number % 10);
    number /= 10;
  }
}

/* Returns the number that `width` decimal digits stand for. */
static inline uint64_t shard_codec_get_digits(const char *digits, size_t width) {
  uint64_t number = 0;
  for (size_t k = 0; k < width; k++) {
    number = number * 10 + (uint64_t)(digits[k] - '0');
  }
  return number;
}

/*
 * Returns the length of the common start of a and b, at most `most`. Both have at least `most`
 * bytes.
 */
static inline size_t shard_codec_shared_start(const char *a, const char *b, size_t most) {
  size_t n = 0;
  for (uint64_t x, y; n + 8 <= most; n += 8) {
    memcpy(&x, a + n, 8);
    memcpy(&y, b + n, 8);
    if (x != y) {
      return n + (size_t)__builtin_ctzll(x ^ y) / 8;
    }
  }
  while (n < most && a[n] == b[n]) {
    n++;
  }
  return n;
}

/*
 * Returns the length of the common end of two texts that end before a_end and b_end, at most
 * `most`. Both have at least `most` bytes.
 */
static inline size_t shard_codec_shared_end(const char *a_end, const char *b_end, size_t most) {
  size_t n = 0;
  for (uint64_t x, y; n + 8 <= most; n += 8) {
    memcpy(&x, a_end - n - 8, 8);
    memcpy(&y, b_end - n - 8, 8);
    if (x != y) {
      return n + (size_t)__builtin_clzll(x ^ y) / 8;
    }
  }
  while (n < most && a_end[-1 - (ptrdiff_t)n] == b_end[-1 - (ptrdiff_t)n]) {
    n++;
  }
  return n;
}

/*
 * Computes the lengths of the common start and the common end of a[na] and b[nb]. The end does not
 * overlap the start.
 */
static inline void shard_codec_shared(const char *a, size_t na, const char *b, size_t nb,
                                      size_t *prefix, size_t *suffix) {
  size_t least = na < nb ? na : nb;
  *prefix = shard_codec_shared_start(a, b, least);
  *suffix = shard_codec_shared_end(a + na, b + nb, least - *prefix);
}

/*
 * Returns whether a directory can have an entry of this name: not for an empty component, "." and
 * "..".
 */
static inline bool shard_codec_is_entry(const char *component, size_t length) {
  return length > 0 &&
         !(component[0] == '.' && (length == 1 || (length == 2 && component[1] == '.')));
}

/* Returns the offset of the basename in name[length]. */
static inline size_t shard_codec_basename(const char *name, size_t length) {
  const char *slash = memrchr(name, '/', length);
  return slash ? (size_t)(slash - name) + 1 : 0;
}

/*
 * Iterates over the directories above the basename of a name, from the top down.
 * base: the offset of the basename.
 * from: the state of the iteration; 0 at first.
 * Returns the length of the next directory's path; 0 at the end, or at a component for which
 * shard_codec_is_entry() is false: no program can open a path through that component.
 */
static inline size_t shard_codec_next_directory(const char *name, size_t base, size_t *from) {
  const char *slash = memchr(name + *from, '/', base - *from);
  size_t end = slash ? (size_t)(slash - name) : 0;
  if (!slash || !shard_codec_is_entry(name + *from, end - *from)) {
    return 0;
  }
  *from = end + 1;
  return end;
}

/* Compares a[na] with b[nb] by bytes; a proper prefix comes first. Returns <0, 0 or >0. */
static inline int shard_codec_compare_bytes(const char *a, size_t na, const char *b, size_t nb) {
  int c = memcmp(a, b, na < nb ? na : nb);
  return c ? c : (na > nb) - (na < nb);
}

/*
 * Compares the directory of name[length], in the form of order DIRECTORY, with key[size]. Returns
 * <0, 0 or >0.
 */
static inline int shard_codec_compare_directory(const char *name, size_t length, const char *key,
                                                size_t size) {
  size_t n = shard_codec_basename(name, length), least = n < size ? n : size;
  int c = memcmp(name, key, least);
  if (c || size < n) {
    return c ? c : 1;
  }
  return size == n ? 1 : '/' != key[n] ? '/' - (unsigned char)key[n] : -(size > n + 1);
}

/*
 * Returns the byte by which order SAMPLE compares name[k], a byte of the basename: SHARD_CODEC_STEM
 * for the dot that ends the stem.
 */
static inline int shard_codec_stem_byte(const char *name, size_t k) {
  if (name[k] == '.') {
    size_t base = shard_codec_basename(name, k);
    if (k > base && !memchr(name + base + 1, '.', k - base - 1)) {
      return SHARD_CODEC_STEM;
    }
  }
  return (unsigned char)name[k];
}

/* Compares two names in order SAMPLE. Returns <0, 0 or >0. */
static inline int shard_codec_compare_samples(const char *a, size_t na, const char *b, size_t nb) {
  size_t k = shard_codec_shared_start(a, b, na < nb ? na : nb);
  bool below = memchr(a + k, '/', na - k), other = memchr(b + k, '/', nb - k);
  if (below != other) {
    return below - other;
  }
  if (k == na || k == nb) {
    return (na > nb) - (na < nb);
  }
  return below ? (unsigned char)a[k] - (unsigned char)b[k]
               : shard_codec_stem_byte(a, k) - shard_codec_stem_byte(b, k);
}

/*
 * Compares two names in an order. In order DIRECTORY all names of one directory are equal.
 * Returns <0, 0 or >0.
 */
static inline int shard_codec_compare_names(uint32_t order, const char *a, size_t na, const char *b,
                                            size_t nb) {
  if (order == SHARD_ORDER_DIRECTORY) {
    size_t da = shard_codec_basename(a, na), db = shard_codec_basename(b, nb);
    if (da == db && memcmp(a, b, da) == 0) {
      return 0;
    }
    size_t least = da < db ? da : db;
    int c = memcmp(a, b, least);
    return c ? c : da < db ? '/' - (unsigned char)b[da] : (unsigned char)a[db] - '/';
  }
  if (order == SHARD_ORDER_SAMPLE) {
    return shard_codec_compare_samples(a, na, b, nb);
  }
  if (order == SHARD_ORDER_BASENAME) {
    size_t oa = shard_codec_basename(a, na), ob = shard_codec_basename(b, nb);
    int c = shard_codec_compare_bytes(a + oa, na - oa, b + ob, nb - ob);
    if (c) {
      return c;
    }
  }
  return shard_codec_compare_bytes(a, na, b, nb);
}

/* Returns whether name b may follow name a in a listing of an order. */
static inline int shard_codec_may_follow(uint32_t order, const char *a, size_t na, const char *b,
                                         size_t nb) {
  return order == SHARD_ORDER_KEEP ||
         shard_codec_compare_names(order, a, na, b, nb) < (order == SHARD_ORDER_DIRECTORY);
}
