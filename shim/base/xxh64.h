/* SPDX-License-Identifier: MIT */
/*
 * xxh64.h - the 64-bit hash that spreads names over ranks: XXH64 as specified by Yann Collet
 * (xxHash, doc/xxhash_spec.md), so that any xxHash library can compute the rank of a name. For
 * little-endian machines only, as the listing file. Inline, because each name of a directory is
 * hashed. Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SHARD_XXH_PRIME1 0x9e3779b185ebca87ULL
#define SHARD_XXH_PRIME2 0xc2b2ae3d27d4eb4fULL
#define SHARD_XXH_PRIME3 0x165667b19e3779f9ULL
#define SHARD_XXH_PRIME4 0x85ebca77c2b2ae63ULL
#define SHARD_XXH_PRIME5 0x27d4eb2f165667c5ULL

static inline uint64_t shard_xxh64_rotate(uint64_t v, unsigned bits) {
  return v << bits | v >> (64 - bits);
}

static inline uint64_t shard_xxh64_lane(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof(v));
  return v;
}

static inline uint64_t shard_xxh64_round(uint64_t accumulator, uint64_t input) {
  return shard_xxh64_rotate(accumulator + input * SHARD_XXH_PRIME2, 31) * SHARD_XXH_PRIME1;
}

/* Returns the hash of data[size]. */
static inline uint64_t shard_xxh64(const void *data, size_t size, uint64_t seed) {
  const uint8_t *p = data, *end = p + size;
  uint64_t h = seed + SHARD_XXH_PRIME5;
  if (size >= 32) {
    uint64_t a[4] = {seed + SHARD_XXH_PRIME1 + SHARD_XXH_PRIME2, seed + SHARD_XXH_PRIME2, seed,
                     seed - SHARD_XXH_PRIME1};
    for (; end - p >= 32; p += 32) {
      for (size_t k = 0; k < 4; k++) {
        a[k] = shard_xxh64_round(a[k], shard_xxh64_lane(p + 8 * k));
      }
    }
    h = shard_xxh64_rotate(a[0], 1) + shard_xxh64_rotate(a[1], 7) + shard_xxh64_rotate(a[2], 12) +
        shard_xxh64_rotate(a[3], 18);
    for (int k = 0; k < 4; k++) {
      h = (h ^ shard_xxh64_round(0, a[k])) * SHARD_XXH_PRIME1 + SHARD_XXH_PRIME4;
    }
  }
  h += size;
  for (; end - p >= 8; p += 8) {
    h = shard_xxh64_rotate(h ^ shard_xxh64_round(0, shard_xxh64_lane(p)), 27) * SHARD_XXH_PRIME1 +
        SHARD_XXH_PRIME4;
  }
  if (end - p >= 4) {
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    h = shard_xxh64_rotate(h ^ v * SHARD_XXH_PRIME1, 23) * SHARD_XXH_PRIME2 + SHARD_XXH_PRIME3;
    p += 4;
  }
  for (; p < end; p++) {
    h = shard_xxh64_rotate(h ^ *p * SHARD_XXH_PRIME5, 11) * SHARD_XXH_PRIME1;
  }
  h = (h ^ h >> 33) * SHARD_XXH_PRIME2;
  h = (h ^ h >> 29) * SHARD_XXH_PRIME3;
  return h ^ h >> 32;
}
