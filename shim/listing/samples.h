/* SPDX-License-Identifier: MIT */
/*
 * samples.h - groups files into samples. The files of a sample are in one share.
 *
 *   FILE       each file is a sample
 *   STEM       the files of a directory whose names agree up to the first dot after the first
 *              character, as in webdataset; a file whose name has no such dot is a sample
 *   DIRECTORY  a directory's own files
 *
 * A listing in order SAMPLE has the files of a sample together, and numbers the samples in that
 * order. Under the rule FILE the number of a sample is the position of its file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "listing/format.h"

struct shard_listing;

/*
 * Returns the length of the part of name[length] that is equal for all files of a sample and tells
 * the sample from other samples: the part that SHARD_STRATEGY=hash hashes.
 */
size_t shard_sample_name(enum shard_sample rule, const char *name, size_t length);

/* Returns whether name b, which follows name a in order SAMPLE, is of the same sample as a. */
bool shard_sample_same(enum shard_sample rule, const char *a, size_t na, const char *b, size_t nb);

/* Returns the number of samples of a listing. */
uint64_t shard_listing_samples(const struct shard_listing *listing);

/*
 * Returns the number of the sample of position i < count.
 * Errors: -EBADMSG.
 */
int64_t shard_listing_sample(const struct shard_listing *listing, uint64_t i);

/* The block that shard_listing_sample_near() has read last; {.end = 0} at first. */
struct shard_sample_cursor {
  uint64_t begin, end; /* the positions [begin, end) that the block covers */
  struct shard_sample_block block;
};

/*
 * Returns the number of the sample of position i, as shard_listing_sample() does. Faster for
 * positions that lie together, because the cursor keeps the block that was read last.
 */
int64_t shard_listing_sample_near(const struct shard_listing *listing, uint64_t i,
                                  struct shard_sample_cursor *cursor);

/*
 * Returns the position of the first file of sample k; the listing's count if k is the number of
 * samples.
 * Errors: -EBADMSG.
 */
int64_t shard_listing_sample_begin(const struct shard_listing *listing, uint64_t k);

/* The message about sets of files without SHARD_SAMPLE; it follows the dataset's name. */
#define SHARD_SAMPLE_SETS                                                                          \
  "nearly all files come in sets that differ in what follows the first dot, and ranks would have " \
  "parts of a set: set SHARD_SAMPLE=stem to keep sets together, SHARD_SAMPLE=file to share out "   \
  "each file for itself, or SHARD_INCLUDE to name the files to be shared out"
