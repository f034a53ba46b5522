/* SPDX-License-Identifier: MIT */
#include "shard/xxh64.h"

#include <string.h>

#define PRIME1 0x9e3779b185ebca87ULL
#define PRIME2 0xc2b2ae3d27d4eb4fULL
#define PRIME3 0x165667b19e3779f9ULL
#define PRIME4 0x85ebca77c2b2ae63ULL
#define PRIME5 0x27d4eb2f165667c5ULL

static uint64_t rotate(uint64_t v, unsigned bits) { return v << bits | v >> (64 - bits); }

static uint64_t lane(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof(v));
  return v;
}

static uint64_t round_of(uint64_t accumulator, uint64_t input) {
  return rotate(accumulator + input * PRIME2, 31) * PRIME1;
}

uint64_t shard_xxh64(const void *data, size_t size, uint64_t seed) {
  const uint8_t *p = data, *end = p + size;
  uint64_t h = seed + PRIME5;
  if (size >= 32) {
    uint64_t a[4] = {seed + PRIME1 + PRIME2, seed + PRIME2, seed, seed - PRIME1};
    for (; end - p >= 32; p += 32) {
      for (size_t k = 0; k < 4; k++) {
        a[k] = round_of(a[k], lane(p + 8 * k));
      }
    }
    h = rotate(a[0], 1) + rotate(a[1], 7) + rotate(a[2], 12) + rotate(a[3], 18);
    for (int k = 0; k < 4; k++) {
      h = (h ^ round_of(0, a[k])) * PRIME1 + PRIME4;
    }
  }
  h += size;
  for (; end - p >= 8; p += 8) {
    h = rotate(h ^ round_of(0, lane(p)), 27) * PRIME1 + PRIME4;
  }
  if (end - p >= 4) {
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    h = rotate(h ^ v * PRIME1, 23) * PRIME2 + PRIME3;
    p += 4;
  }
  for (; p < end; p++) {
    h = rotate(h ^ *p * PRIME5, 11) * PRIME1;
  }
  h = (h ^ h >> 33) * PRIME2;
  h = (h ^ h >> 29) * PRIME3;
  return h ^ h >> 32;
}
