/* SPDX-License-Identifier: MIT */
/*
 * shard.h - which samples of a listing belong to a rank. Pure functions. A position is the number
 * of a sample (listing/samples.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "shard/permute.h"

/*
 * Returns the rank that owns a name under the hash strategy: floor(XXH64(name, key) P / 2^64),
 * which takes a quarter of the time of a remainder. The owner does not depend on other names;
 * shares are equal on average only.
 * key: 0, or shard_shuffle_key() of seed and epoch.
 * size: P, the ranks.
 */
uint32_t shard_owner_by_name(const char *name, size_t length, uint64_t key, uint32_t size);

/*
 * The share of rank r of P in n positions. With c = ceil(n / P) and f = floor(n / P):
 *
 *           range: positions                     stride: positions
 *   keep    floor(r n / P) ... floor((r+1) n / P) - 1    r, r + P, ... below n
 *   drop    r f ... r f + f - 1                  r, r + P, ... below f P
 *   repeat  r c ... r c + c - 1, modulo n        r, r + P, ... below c P, modulo n
 *
 * keep: every position has exactly one owner, and shares differ by at most one. drop: the last
 * n mod P positions have no owner. repeat: pads as torch's DistributedSampler; no share has a
 * position twice.
 *
 * If the share is shuffled, the table holds for places in the shuffled order: the position at place
 * j is shard_permute(j), and position i is at place shard_permute_back(i).
 */
struct shard_share {
  enum shard_strategy strategy; /* range or stride */
  uint32_t rank, size;
  uint64_t n, count; /* all positions, and the rank's */
  uint64_t first;    /* the rank's first place */
  uint64_t wrapped;  /* stride: the rank's place that wraps past the end, modulo n; n: none */
  bool shuffled;
  struct shard_permutation permutation;
};

/* Sets up a share. key: of the shuffle; 0: not shuffled. */
void shard_share_init(struct shard_share *share, enum shard_strategy strategy,
                      enum shard_remainder remainder, uint32_t rank, uint32_t size, uint64_t n,
                      uint64_t key);

/* Returns whether n positions suffice: with drop, fewer positions than ranks leave empty shares. */
bool shard_share_suffices(enum shard_remainder remainder, uint32_t size, uint64_t n);

/* Returns whether a position is the rank's. */
bool shard_share_owns(const struct shard_share *share, uint64_t position);

/* Returns the place of the rank's k-th position, k < count. */
uint64_t shard_share_place(const struct shard_share *share, uint64_t k);

/* Returns the position at a place. */
uint64_t shard_share_position(const struct shard_share *share, uint64_t place);

/* Returns which of the rank's positions `position` is, from 0 on; count if it is not the rank's. */
uint64_t shard_share_index(const struct shard_share *share, uint64_t position);

struct shard_interval {
  uint64_t begin, end;
};

/*
 * Gets the rank's places under the range strategy as ascending intervals [begin, end).
 * Returns the number of intervals, 1 or 2.
 */
unsigned shard_share_intervals(const struct shard_share *share, struct shard_interval out[2]);
