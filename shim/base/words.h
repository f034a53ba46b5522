/* SPDX-License-Identifier: MIT */
/*
 * words.h - the words of variables, options and reports, each list once.
 *
 * A list ends with NULL. A word's place in its list is its value in the enum. Pure functions; the
 * words are static storage.
 */
#pragma once

#include <stdbool.h>

/* How the ranks share the positions of a listing. */
enum shard_strategy { SHARD_STRATEGY_RANGE, SHARD_STRATEGY_STRIDE, SHARD_STRATEGY_HASH };

/* What becomes of the positions that are too few for one more of each rank (shard/shard.h). */
enum shard_remainder { SHARD_REMAINDER_KEEP, SHARD_REMAINDER_DROP, SHARD_REMAINDER_REPEAT };

/* Which files are one sample, and so in one share (listing/samples.h). */
enum shard_sample { SHARD_SAMPLE_FILE, SHARD_SAMPLE_STEM, SHARD_SAMPLE_DIRECTORY };

/* Where a URL names the bucket: in the path, or in the host (virtual). */
enum shard_s3_addressing { SHARD_S3_AUTO, SHARD_S3_PATH, SHARD_S3_VIRTUAL };

extern const char *const shard_words_views[];       /* enum shard_view, of libshard.h */
extern const char *const shard_words_strategies[];  /* enum shard_strategy */
extern const char *const shard_words_remainders[];  /* enum shard_remainder */
extern const char *const shard_words_samples[];     /* enum shard_sample */
extern const char *const shard_words_addressings[]; /* enum shard_s3_addressing */
extern const char *const shard_words_orders[];      /* SHARD_ORDER_ of listing/format.h */
extern const char *const shard_words_levels[];      /* enum shard_log_level, ditto */

/* The place of a word in a list, or -1. */
int shard_words_find(const char *const *words, const char *text);

/* The word at a place; "unknown" past the end, as a number read from a file may be. */
const char *shard_words_at(const char *const *words, unsigned place);

/* Whether two texts differ in nothing but the case of A to Z, in every locale: strcasecmp() has the
 * host's, and in Turkish "I" is no "i". */
bool shard_words_alike(const char *a, const char *b);

#define SHARD_WORDS_ROOM 128 /* bytes, enough to join any of the lists above */

/* Print "a, b or c" into buf. Returns buf. */
const char *shard_words_join(const char *const *words, char buf[SHARD_WORDS_ROOM]);
