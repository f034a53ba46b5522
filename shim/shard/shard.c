/* SPDX-License-Identifier: MIT */
#include "shard/shard.h"

#include "base/xxh64.h"
#include "libshard.h"

static uint64_t range_begin(uint64_t n, uint32_t rank, uint32_t size) {
  return (uint64_t)((unsigned __int128)n * rank / size);
}

void shard_range(uint64_t n, uint32_t rank, uint32_t size, uint64_t *begin, uint64_t *end) {
  *begin = range_begin(n, rank, size);
  *end = range_begin(n, rank + 1, size);
}

uint32_t shard_owner_by_name(const char *name, size_t length, uint64_t key, uint32_t size) {
  return (uint32_t)((unsigned __int128)shard_xxh64(name, length, key) * size >> 64);
}

/* Sets the first place and the number of places under the range strategy. */
static void place_range(struct shard_share *s, enum shard_remainder remainder) {
  uint64_t each = s->n / s->size, end;
  shard_range(s->n, s->rank, s->size, &s->first, &end);
  s->count = end - s->first;
  if (remainder != SHARD_REMAINDER_KEEP) {
    s->count = each + (remainder == SHARD_REMAINDER_REPEAT && s->n % s->size != 0);
    s->first = s->n ? s->rank * s->count % s->n : 0;
  }
}

/* Does the same for stride. Only the last place can wrap: it is below c P, which is less than n +
 * P; and if n < P, a rank has one place at most. */
static void place_stride(struct shard_share *s, enum shard_remainder remainder) {
  uint64_t each = s->n / s->size, rest = s->n % s->size;
  bool more = remainder == SHARD_REMAINDER_KEEP     ? s->rank < rest
              : remainder == SHARD_REMAINDER_REPEAT ? rest != 0
                                                    : false;
  s->count = each + more;
  s->first = s->rank;
  if (s->count > 0) {
    uint64_t last = s->rank + (s->count - 1) * s->size;
    s->wrapped = last < s->n ? s->n : last % s->n;
  }
}

void shard_share_init(struct shard_share *s, enum shard_strategy strategy,
                      enum shard_remainder remainder, uint32_t rank, uint32_t size, uint64_t n,
                      uint64_t key) {
  *s = (struct shard_share){
      .strategy = strategy, .rank = rank, .size = size, .n = n, .wrapped = n, .shuffled = key != 0};
  if (strategy == SHARD_STRATEGY_STRIDE) {
    place_stride(s, remainder);
  } else {
    place_range(s, remainder);
  }
  if (s->shuffled) {
    shard_permutation_init(&s->permutation, n, key);
  }
}

bool shard_share_suffices(enum shard_remainder remainder, uint32_t size, uint64_t n) {
  return remainder != SHARD_REMAINDER_DROP || n >= size;
}

uint64_t shard_share_index(const struct shard_share *s, uint64_t i) {
  if (s->shuffled) {
    i = shard_permute_back(&s->permutation, i);
  }
  uint64_t k = i < s->first ? i + s->n - s->first : i - s->first;
  if (s->strategy == SHARD_STRATEGY_STRIDE) {
    k = i == s->wrapped ? s->count - 1 : i % s->size == s->rank ? i / s->size : s->count;
  }
  return k < s->count ? k : s->count;
}

bool shard_share_owns(const struct shard_share *s, uint64_t i) {
  return shard_share_index(s, i) < s->count;
}

uint64_t shard_share_place(const struct shard_share *s, uint64_t k) {
  uint64_t place = s->first + (s->strategy == SHARD_STRATEGY_STRIDE ? k * s->size : k);
  return place < s->n ? place : place % s->n;
}

uint64_t shard_share_position(const struct shard_share *s, uint64_t place) {
  return s->shuffled ? shard_permute(&s->permutation, place) : place;
}

unsigned shard_share_intervals(const struct shard_share *s, struct shard_interval out[2]) {
  uint64_t end = s->first + s->count;
  bool wraps = end > s->n;
  out[0] = (struct shard_interval){wraps ? 0 : s->first, wraps ? end - s->n : end};
  out[1] = (struct shard_interval){s->first, s->n};
  return wraps ? 2 : 1;
}
