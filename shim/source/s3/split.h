/* SPDX-License-Identifier: MIT */
/* split.h - guesses where to divide a range of keys of which only the beginning has been seen. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/codec.h"
#include "source/s3/s3.h"

/* A key, or the beginning of a key, with room to complete a UTF-8 sequence. */
struct shard_s3_text {
  size_t length;
  char bytes[SHARD_S3_KEY_MAX + 8];
};

/* The bytes that have been seen at each position of keys. */
struct shard_s3_seen {
  uint64_t bits[SHARD_S3_KEY_MAX][4];
};

/*
 * Notes the bytes of a key.
 * before[before_length]: the key noted before; NULL: none.
 */
void shard_s3_split_note(struct shard_s3_seen *seen, const char *before, size_t before_length,
                         const char *key, size_t length);

/*
 * A range: the keys after `at`, up to and including `end` (NULL: no end). `seen` tells what keys
 * look like.
 */
struct shard_s3_span {
  const struct shard_s3_text *at, *end;
  const struct shard_s3_seen *seen;
  size_t prefix; /* bytes that all keys begin with */
  bool guess;    /* `at` is a guess, and the server has not answered yet */
};

/*
 * Returns whether bytes[length] is UTF-8 that XML allows, control characters aside, so that a
 * server may repeat the text.
 */
bool shard_s3_split_is_text(const char *bytes, size_t length);

/* Returns how many bytes two keys share at their start. */
static inline size_t shard_s3_split_shared(const char *a, size_t na, const char *b, size_t nb) {
  return shard_codec_shared_start(a, b, na < nb ? na : nb);
}

/*
 * Finds a text between `at` and `end`, in valid UTF-8: either a text that a part of the range's
 * keys come before, or a text that may lie past the last key.
 * part: of the keys before the text, about; 0 to 1.
 * Returns false if no text looks worth a request.
 */
bool shard_s3_split_between(const struct shard_s3_span *span, double part,
                            struct shard_s3_text *middle);

/* A large number: no estimate is possible. */
#define SHARD_S3_UNKNOWN 1e12

/*
 * Estimates how many keys are left in a range.
 * first, count: the last `count` keys led from `first` to span->at.
 * Returns the number of keys, or SHARD_S3_UNKNOWN.
 */
double shard_s3_split_left(const struct shard_s3_span *span, const struct shard_s3_text *first,
                           uint64_t count);
