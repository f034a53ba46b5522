/* SPDX-License-Identifier: MIT */
/*
 * shard.h - which samples of a listing belong to a rank. Pure functions. A position is a sample's
 * (listing/samples.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "shard/permute.h"

/*
 * hash: the rank that owns a name, whatever other names there are: floor(XXH64(name, key) P /
 * 2^64), which takes a quarter of the time of a remainder. key is 0, or shard_shuffle_key() of the
 * seed and epoch. Shares are equal on average only.
 */
uint32_t shard_owner_by_name(const char *name, size_t length, uint64_t key, uint32_t size);

/*
 * One rank's share of n positions, of P ranks'. With c = ceil(n / P) and f = floor(n / P):
 *
 *           range: positions                     stride: positions
 *   keep    floor(r n / P) ... floor((r+1) n / P) - 1    r, r + P, ... below n
 *   drop    r f ... r f + f - 1                  r, r + P, ... below f P
 *   repeat  r c ... r c + c - 1, modulo n        r, r + P, ... below c P, modulo n
 *
 * keep: every position has exactly one owner, and shares differ by at most one. drop: the last
 * n mod P positions are nobody's. repeat: as torch's DistributedSampler pads; no position is in a
 * share twice.
 * Shuffled: the ranks share places of a permuted sequence in place of positions. Place j has
 * position shard_permute(j), and position i is at place shard_permute_back(i).
 */
struct shard_share {
  enum shard_strategy strategy; /* range or stride */
  uint32_t rank, size;
  uint64_t n, count; /* of all positions, and of the rank's */
  uint64_t first;    /* the rank's first place */
  uint64_t wrapped;  /* stride: its place past the end, modulo n; n: it has none */
  bool shuffled;
  enum shard_remainder remainder;
  uint64_t key;
  struct shard_permutation permutation;
};

/* key 0: not shuffled. */
void shard_share_init(struct shard_share *share, enum shard_strategy strategy,
                      enum shard_remainder remainder, uint32_t rank, uint32_t size, uint64_t n,
                      uint64_t key);

/* Make it the share of n positions. */
void shard_share_resize(struct shard_share *share, uint64_t n);

/* Whether n positions suffice: drop leaves nothing of fewer than there are ranks. */
bool shard_share_suffices(enum shard_remainder remainder, uint32_t size, uint64_t n);

bool shard_share_owns(const struct shard_share *share, uint64_t position);

/* The place of the rank's k-th, k < count; and the position of the listing at a place. */
uint64_t shard_share_place(const struct shard_share *share, uint64_t k);
uint64_t shard_share_at(const struct shard_share *share, uint64_t place);

/* Which of the rank's a position is; count, if it is not the rank's. */
uint64_t shard_share_find(const struct shard_share *share, uint64_t position);

/* Of range: the places as intervals [begin, end), ascending. Returns how many they are, 1 or 2. */
struct shard_interval {
  uint64_t begin, end;
};
unsigned shard_share_intervals(const struct shard_share *share, struct shard_interval out[2]);
