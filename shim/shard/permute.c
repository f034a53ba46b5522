/* SPDX-License-Identifier: MIT */
#include "shard/permute.h"

#include "libshard.h"

#define GOLDEN 0x9e3779b97f4a7c15ULL

static uint64_t mix(uint64_t v) {
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ULL;
  v = (v ^ v >> 27) * 0x94d049bb133111ebULL;
  return v ^ v >> 31;
}

uint64_t shard_random(uint64_t *state) { return mix(*state += GOLDEN); }

uint64_t shard_shuffle_key(uint64_t seed, uint64_t epoch) {
  uint64_t key = mix(mix(seed + GOLDEN) + epoch * GOLDEN + 1);
  return key ? key : 1;
}

void shard_permutation_init(struct shard_permutation *p, uint64_t n, uint64_t key) {
  unsigned bits = 6;
  while (bits < 62 && n > 1ULL << bits) {
    bits++;
  }
  p->n = n;
  p->low_bits = bits / 2;
  p->low_mask = (1ULL << p->low_bits) - 1;
  p->high_mask = (1ULL << (bits - p->low_bits)) - 1;
  for (int r = 0; r < SHARD_PERMUTE_ROUNDS; r++) {
    p->keys[r] = shard_random(&key);
  }
}

uint64_t shard_permute(const struct shard_permutation *p, uint64_t i) {
  do {
    uint64_t low = i & p->low_mask, high = i >> p->low_bits;
    for (int r = 0; r < SHARD_PERMUTE_ROUNDS; r += 2) {
      high ^= mix(low + p->keys[r]) & p->high_mask;
      low ^= mix(high + p->keys[r + 1]) & p->low_mask;
    }
    i = high << p->low_bits | low;
  } while (i >= p->n);
  return i;
}

uint64_t shard_permute_back(const struct shard_permutation *p, uint64_t i) {
  do {
    uint64_t low = i & p->low_mask, high = i >> p->low_bits;
    for (int r = SHARD_PERMUTE_ROUNDS - 2; r >= 0; r -= 2) {
      low ^= mix(high + p->keys[r + 1]) & p->low_mask;
      high ^= mix(low + p->keys[r]) & p->high_mask;
    }
    i = high << p->low_bits | low;
  } while (i >= p->n);
  return i;
}

uint64_t shard_shuffle(uint64_t i, uint64_t n, uint64_t seed, uint64_t epoch) {
  struct shard_permutation p;
  shard_permutation_init(&p, n, shard_shuffle_key(seed, epoch));
  return shard_permute(&p, i);
}

uint64_t shard_shuffle_back(uint64_t i, uint64_t n, uint64_t seed, uint64_t epoch) {
  struct shard_permutation p;
  shard_permutation_init(&p, n, shard_shuffle_key(seed, epoch));
  return shard_permute_back(&p, i);
}
