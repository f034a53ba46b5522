/* SPDX-License-Identifier: MIT */
/*
 * words.h - the words that variables, options and reports use; each list stands here once.
 *
 * A list ends with NULL. The index of a word in its list is its value in the enum. The words are
 * static storage. Pure functions.
 */
#pragma once

#include <stdbool.h>

/* How the ranks share the samples of a listing. */
enum shard_strategy { SHARD_STRATEGY_RANGE, SHARD_STRATEGY_STRIDE, SHARD_STRATEGY_HASH };

/* What happens to the last samples if their number is no multiple of the ranks (shard/shard.h). */
enum shard_remainder { SHARD_REMAINDER_KEEP, SHARD_REMAINDER_DROP, SHARD_REMAINDER_REPEAT };

/* Which files form a sample, and so stay in one share (listing/samples.h). */
enum shard_sample { SHARD_SAMPLE_FILE, SHARD_SAMPLE_STEM, SHARD_SAMPLE_DIRECTORY };

/* Which part of an S3 URL names the bucket: the path, or the host (virtual). */
enum shard_s3_addressing { SHARD_S3_AUTO, SHARD_S3_PATH, SHARD_S3_VIRTUAL };

extern const char *const shard_words_views[];       /* enum shard_view, of libshard.h */
extern const char *const shard_words_strategies[];  /* enum shard_strategy */
extern const char *const shard_words_remainders[];  /* enum shard_remainder */
extern const char *const shard_words_samples[];     /* enum shard_sample */
extern const char *const shard_words_addressings[]; /* enum shard_s3_addressing */
extern const char *const shard_words_orders[];      /* SHARD_ORDER_ of listing/format.h */
extern const char *const shard_words_levels[];      /* enum shard_log_level, of libshard.h */

/* Returns the index of a word in a list. Errors: -1, the list does not have the word. */
int shard_words_find(const char *const *words, const char *text);

/* Returns the word at an index; "unknown" past the end, because a file may hold any number. */
const char *shard_words_at(const char *const *words, unsigned i);

/*
 * Returns whether two texts are equal but for the case of A to Z. Unlike strcasecmp(3), the result
 * does not depend on the host's locale: in Turkish, "I" is not the capital of "i".
 */
bool shard_words_equal_nocase(const char *a, const char *b);

#define SHARD_WORDS_ROOM 128 /* bytes, enough to join any of the lists above */

/* Prints "a, b or c" into buf. Returns buf. */
const char *shard_words_join(const char *const *words, char buf[SHARD_WORDS_ROOM]);
