/* SPDX-License-Identifier: MIT */
/* fnv.h - FNV-1a, 64 bits (Fowler, Noll, Vo): for names of files. Collisions can be found. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHARD_FNV_BASIS 0xcbf29ce484222325ULL

/* Continue hash `h` (SHARD_FNV_BASIS at first) over data[size]. */
static inline uint64_t shard_fnv(uint64_t h, const void *data, size_t size) {
  const uint8_t *p = data;
  while (size--) {
    h = (h ^ *p++) * 0x100000001b3ULL;
  }
  return h;
}
