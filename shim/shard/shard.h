/* SPDX-License-Identifier: MIT */
/*
 * shard.h - which entries of a listing belong to a rank. Pure functions.
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
 * One rank's share of n positions. Every position has exactly one owner; shares differ by at most
 * one.
 * range:  positions [floor(r n / P), floor((r + 1) n / P)) belong to rank r.
 * stride: position i belongs to rank i mod P.
 * Shuffled: the ranks share places of a permuted sequence in place of positions. Place j has
 * position shard_permute(j), and position i is at place shard_permute_back(i).
 */
struct shard_share {
  enum shard_strategy strategy; /* range or stride */
  uint32_t rank, size;
  uint64_t n;
  bool shuffled;
  struct shard_permutation permutation;
};

/* key 0: not shuffled. */
void shard_share_init(struct shard_share *share, enum shard_strategy strategy, uint32_t rank,
                      uint32_t size, uint64_t n, uint64_t key);

bool shard_share_owns(const struct shard_share *share, uint64_t position);

/*
 * The places of the sequence that belong to the rank: *begin, then every *step-th below *end.
 * shard_share_at() is the position of the listing at a place.
 */
void shard_share_places(const struct shard_share *share, uint64_t *begin, uint64_t *end,
                        uint64_t *step);
uint64_t shard_share_at(const struct shard_share *share, uint64_t place);
