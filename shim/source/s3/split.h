/* SPDX-License-Identifier: MIT */
/*
 * split.h - where to divide a range of keys of which only the beginning has been seen.
 */
#ifndef SHARD_SOURCE_S3_SPLIT_H
#define SHARD_SOURCE_S3_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/codec.h"
#include "source/s3/s3.h"

struct shard_s3_text {
  size_t length;
  char bytes[SHARD_S3_KEY_MAX + 8];
};

/* Which bytes have been seen at each position of keys. */
struct shard_s3_seen {
  uint64_t bits[SHARD_S3_KEY_MAX][4];
};

/* Note a key; `before` is the one noted before it (NULL: none). */
void shard_s3_split_note(struct shard_s3_seen *seen, const char *before, size_t before_length,
                         const char *key, size_t length);

/* The keys after `at`, up to and including `end` (NULL: no end), of which `seen` tells the form. */
struct shard_s3_span {
  const struct shard_s3_text *at, *end;
  const struct shard_s3_seen *seen;
  size_t prefix; /* bytes that all keys begin with */
  bool guess;    /* `at` is a guess that has no answer yet */
};

/* Valid UTF-8 that XML can repeat, but for control characters. */
bool shard_s3_split_is_text(const char *bytes, size_t length);

/* Bytes that they share at their start. */
static inline size_t shard_s3_split_shared(const char *a, size_t na, const char *b, size_t nb) {
  return shard_shared_start(a, b, na < nb ? na : nb);
}

/*
 * A text between at and end, valid UTF-8, with about this part (0 to 1) of the keys before it; or
 * one behind which it is not known whether there is anything. false: there is none that promises
 * anything.
 */
bool shard_s3_split_between(const struct shard_s3_span *span, double part,
                            struct shard_s3_text *middle);

/*
 * About how many keys are left, if the last `count` took the way from `first` to span->at; much
 * (SHARD_S3_UNKNOWN) where nothing is known.
 */
#define SHARD_S3_UNKNOWN 1e12
double shard_s3_split_left(const struct shard_s3_span *span, const struct shard_s3_text *first,
                           uint64_t count);

#endif
