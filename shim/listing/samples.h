/* SPDX-License-Identifier: MIT */
/*
 * samples.h - which files are one sample, and so in one share.
 *
 * STEM: files of one directory whose names agree up to the first dot after their first character,
 * as webdataset has it; a name without such a dot is a sample of its own. DIRECTORY: a directory's
 * own files. A listing in order SAMPLE has a sample's files together, and its samples are numbered
 * in that order; with the rule FILE a sample is a position.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "listing/format.h"

struct shard_listing;

/* How many bytes of name[length] tell its sample from others': hash's. */
size_t shard_sample_name(enum shard_sample rule, const char *name, size_t length);

/* Whether name b, which follows name a in order SAMPLE, is of the same sample. */
bool shard_sample_same(enum shard_sample rule, const char *a, size_t na, const char *b, size_t nb);

/* How many samples a listing has. */
uint64_t shard_listing_samples(const struct shard_listing *listing);

/* The sample of position i < count; or -EBADMSG. */
int64_t shard_listing_sample(const struct shard_listing *listing, uint64_t i);

/* The same for positions that lie together: what was read is kept. At first {.end = 0}. */
struct shard_sample_cursor {
  uint64_t begin, end; /* positions that the block is for */
  struct shard_sample_block block;
};
int64_t shard_listing_sample_near(const struct shard_listing *listing, uint64_t i,
                                  struct shard_sample_cursor *cursor);

/* The position of the first file of sample k; count, if k is the number of samples; or -EBADMSG. */
int64_t shard_listing_sample_begin(const struct shard_listing *listing, uint64_t k);

/* For messages, behind the dataset's name. */
#define SHARD_SAMPLE_SETS                                                                          \
  "nearly all files come in sets that differ in what follows the first dot, and ranks would have " \
  "parts of a set: set SHARD_SAMPLE=stem to keep sets together, SHARD_SAMPLE=file to share out "   \
  "each file for itself, or SHARD_INCLUDE to name the files to be shared out"
