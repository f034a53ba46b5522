/* SPDX-License-Identifier: MIT */
/*
 * words.h - the words of variables, options and reports, each list once.
 *
 * A list ends with NULL. Where there is an enum, a word's place in the list is its value. Pure
 * functions; the words are static storage.
 */
#ifndef SHARD_BASE_WORDS_H
#define SHARD_BASE_WORDS_H

#include <stddef.h>

/* How positions are shared out among ranks. */
enum shard_strategy { SHARD_STRATEGY_RANGE, SHARD_STRATEGY_STRIDE, SHARD_STRATEGY_HASH };

/* Whether a bucket is named in the host (virtual) or in the path. */
enum shard_s3_addressing { SHARD_S3_AUTO, SHARD_S3_PATH, SHARD_S3_VIRTUAL };

/* Which messages are printed: those up to this level. */
enum shard_log_level { SHARD_LOG_ERROR, SHARD_LOG_WARN, SHARD_LOG_INFO, SHARD_LOG_DEBUG };

extern const char *const shard_words_views[];       /* enum shard_view, of libshard.h */
extern const char *const shard_words_strategies[];  /* enum shard_strategy */
extern const char *const shard_words_addressings[]; /* enum shard_s3_addressing */
extern const char *const shard_words_orders[];      /* SHARD_ORDER_ of listing/format.h */
extern const char *const shard_words_levels[];      /* enum shard_log_level */

/* The place of a word in a list, or -1. */
int shard_words_find(const char *const *words, const char *text);

/* The word at a place; "unknown" past the end, for a number that was read from a file. */
const char *shard_words_at(const char *const *words, unsigned place);

#define SHARD_WORDS_ROOM 128 /* for any list of ours */

/* "a, b or c" in buf, which is returned. */
const char *shard_words_join(const char *const *words, char buf[SHARD_WORDS_ROOM]);

#endif
