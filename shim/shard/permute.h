/* SPDX-License-Identifier: MIT */
/*
 * permute.h - a keyed permutation of [0, n) that takes no memory. Pure functions; the same results
 * on every machine.
 *
 * A Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations", 1988) over the
 * smallest power of two that holds n, but at least 64; its halves differ by one bit where the power
 * is odd. Results past n are sent through the network again ("cycle walking", Black and Rogaway,
 * "Ciphers with arbitrary finite domains", 2002): at most twice on average, for n of 32 and more.
 * The round function is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014). Not for
 * cryptography.
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

/* Combines a seed and an epoch to a key for shuffles and hashes. Never returns 0. */
uint64_t shard_shuffle_key(uint64_t seed, uint64_t epoch);

/* Sets up the permutation of [0, n) that belongs to `key`. n: at most 2^62. */
void shard_permutation_init(struct shard_permutation *p, uint64_t n, uint64_t key);

/* Returns the image of i < n. */
uint64_t shard_permute(const struct shard_permutation *p, uint64_t i);

/* Returns the number below n whose image is i. */
uint64_t shard_permute_back(const struct shard_permutation *p, uint64_t i);

/* Returns the next number of a SplitMix64 generator, and advances its state. */
uint64_t shard_random(uint64_t *state);
