/* SPDX-License-Identifier: MIT */
#include "shard/shard.h"

#include "libshard.h"

static uint64_t bound(uint64_t n, uint32_t rank, uint32_t size) {
  return (uint64_t)((unsigned __int128)n * rank / size);
}

void shard_range(uint64_t n, uint32_t rank, uint32_t size, uint64_t *begin, uint64_t *end) {
  *begin = bound(n, rank, size);
  *end = bound(n, rank + 1, size);
}

uint32_t shard_owner(enum shard_strategy strategy, uint64_t i, uint64_t n, uint32_t size) {
  if (strategy == SHARD_STRATEGY_STRIDE) {
    return (uint32_t)(i % size);
  }
  /* The largest r with floor(r n / P) <= i: r <= ((i + 1) P - 1) / n. */
  return (uint32_t)((((unsigned __int128)i + 1) * size - 1) / n);
}
