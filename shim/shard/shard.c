/* SPDX-License-Identifier: MIT */
#include "shard/shard.h"

#include "base/xxh64.h"
#include "libshard.h"

static uint64_t bound(uint64_t n, uint32_t rank, uint32_t size) {
  return (uint64_t)((unsigned __int128)n * rank / size);
}

void shard_range(uint64_t n, uint32_t rank, uint32_t size, uint64_t *begin, uint64_t *end) {
  *begin = bound(n, rank, size);
  *end = bound(n, rank + 1, size);
}

uint32_t shard_owner_by_name(const char *name, size_t length, uint64_t key, uint32_t size) {
  return (uint32_t)((unsigned __int128)shard_xxh64(name, length, key) * size >> 64);
}

void shard_share_init(struct shard_share *s, enum shard_strategy strategy, uint32_t rank,
                      uint32_t size, uint64_t n, uint64_t key) {
  *s = (struct shard_share){.strategy = strategy, .rank = rank, .size = size, .n = n};
  if (key != 0) {
    s->shuffled = true;
    shard_permutation_init(&s->permutation, n, key);
  }
}

bool shard_share_owns(const struct shard_share *s, uint64_t i) {
  if (s->shuffled) {
    i = shard_permute_back(&s->permutation, i);
  }
  if (s->strategy == SHARD_STRATEGY_STRIDE) {
    return i % s->size == s->rank;
  }
  /* The largest r with floor(r n / P) <= i: r <= ((i + 1) P - 1) / n. */
  return (uint32_t)((((unsigned __int128)i + 1) * s->size - 1) / s->n) == s->rank;
}

void shard_share_places(const struct shard_share *s, uint64_t *begin, uint64_t *end,
                        uint64_t *step) {
  if (s->strategy == SHARD_STRATEGY_STRIDE) {
    *begin = s->rank < s->n ? s->rank : s->n;
    *end = s->n;
    *step = s->size;
  } else {
    shard_range(s->n, s->rank, s->size, begin, end);
    *step = 1;
  }
}

uint64_t shard_share_at(const struct shard_share *s, uint64_t place) {
  return s->shuffled ? shard_permute(&s->permutation, place) : place;
}
