/* SPDX-License-Identifier: MIT */
/*
 * split.h - where to divide a range of keys, if only its beginning has been seen.
 */
#pragma once

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

/* Note a key's bytes. `before` is the key noted before it; NULL: none. */
void shard_s3_split_note(struct shard_s3_seen *seen, const char *before, size_t before_length,
                         const char *key, size_t length);

/* The keys after `at`, up to and including `end` (NULL: no end). `seen`: what keys look like. */
struct shard_s3_span {
  const struct shard_s3_text *at, *end;
  const struct shard_s3_seen *seen;
  size_t prefix; /* bytes that all keys begin with */
  bool guess;    /* `at` is a guess, and the server has not answered yet */
};

/* Whether it is UTF-8 that XML allows, control characters aside: a server may repeat it. */
bool shard_s3_split_is_text(const char *bytes, size_t length);

/* How many bytes two keys share at their start. */
static inline size_t shard_s3_split_shared(const char *a, size_t na, const char *b, size_t nb) {
  return shard_codec_shared_start(a, b, na < nb ? na : nb);
}

/*
 * Find a text between at and end, valid UTF-8, with about this part (0 to 1) of the keys before it;
 * or else a key that may lie past the last one. false: nothing looks worth a request.
 */
bool shard_s3_split_between(const struct shard_s3_span *span, double part,
                            struct shard_s3_text *middle);

/*
 * Estimate how many keys are left, given that the last `count` led from `first` to span->at.
 * SHARD_S3_UNKNOWN, a large number, where there is nothing to go by.
 */
#define SHARD_S3_UNKNOWN 1e12
double shard_s3_split_left(const struct shard_s3_span *span, const struct shard_s3_text *first,
                           uint64_t count);
