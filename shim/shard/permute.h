/* SPDX-License-Identifier: MIT */
/*
 * permute.h - a keyed permutation of [0, n) that no process stores.
 *
 * A Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations", 1988) over
 * the smallest power of two that holds n, but at least 64, with halves that differ by a bit where
 * the power is odd; results past n are sent through it again ("cycle walking", Black and Rogaway,
 * "Ciphers with arbitrary finite domains", 2002): twice on average at most, for n of 32 and more.
 * The round function is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014). It shuffles; it
 * hides nothing.
 *
 * Pure functions; the same on every machine.
 */
#pragma once

#include <stdint.h>

#define SHARD_PERMUTE_ROUNDS 8

struct shard_permutation {
  uint64_t n;
  unsigned low_bits; /* of the lower half */
  uint64_t low_mask, high_mask;
  uint64_t keys[SHARD_PERMUTE_ROUNDS];
};

/* One number from a seed and an epoch, for both shuffles and hashes. Never 0. */
uint64_t shard_shuffle_key(uint64_t seed, uint64_t epoch);

/* The permutation of [0, n), n at most 2^62, that belongs to `key`. */
void shard_permutation_init(struct shard_permutation *p, uint64_t n, uint64_t key);

/* Where position i < n goes, and where it comes from. */
uint64_t shard_permute(const struct shard_permutation *p, uint64_t i);
uint64_t shard_permute_back(const struct shard_permutation *p, uint64_t i);

/* The next number of a SplitMix64 generator. */
uint64_t shard_random(uint64_t *state);
