/* SPDX-License-Identifier: MIT */
/*
 * Shares of range and stride with every remainder, against plain counting.
 * Links: shard/permute shard/xxh64 shard/shard
 */
#include <string.h>

#include "libshard.h"
#include "shard/shard.h"
#include "unit.h"

#define MOST 40

/* The rank's places, as shard.h's table has them. Returns how many they are. */
static unsigned count_places(enum shard_strategy strategy, enum shard_remainder remainder,
                             unsigned r, unsigned P, unsigned n, unsigned places[MOST]) {
  unsigned found = 0, f = n / P, c = (n + P - 1) / P;
  bool range = strategy == SHARD_STRATEGY_RANGE;
  if (remainder == SHARD_REMAINDER_KEEP) {
    for (unsigned i = 0; i < n; i++) {
      if (range ? r * n / P <= i && i < (r + 1) * n / P : i % P == r) {
        places[found++] = i;
      }
    }
    return found;
  }
  unsigned each = remainder == SHARD_REMAINDER_DROP ? f : c;
  for (unsigned i = 0; i < each * P; i++) { /* P shares of equal length, one after the other */
    if (range ? i / each == r : i % P == r) {
      places[found++] = i % n;
    }
  }
  return found;
}

/* One share: what it is asked by position, by number and by intervals. */
static void check_share(const struct shard_share *s, const unsigned *places, unsigned count) {
  uint8_t mine[MOST] = {0};
  struct shard_interval parts[2];
  assert_int_equal(s->count, count);
  for (unsigned k = 0; k < count; k++) {
    uint64_t place = shard_share_place(s, k);
    assert_int_equal(place, places[k]);
    uint64_t at = shard_share_position(s, place);
    assert_true(at < s->n);
    assert_int_equal(mine[at]++, 0); /* no rank has a file twice */
  }
  for (uint64_t i = 0; i < s->n; i++) {
    assert_int_equal(shard_share_owns(s, i), mine[i]);
  }
  if (s->strategy == SHARD_STRATEGY_RANGE) {
    unsigned parted = shard_share_intervals(s, parts), sum = 0;
    uint64_t last = 0;
    for (unsigned k = 0; k < parted; k++) {
      assert_true(last <= parts[k].begin && parts[k].begin <= parts[k].end && parts[k].end <= s->n);
      for (uint64_t place = parts[k].begin; place < parts[k].end; place++, sum++) {
        assert_int_equal(mine[shard_share_position(s, place)], 1);
      }
      last = parts[k].end;
    }
    assert_int_equal(sum, count);
  }
}

/* How often each position is owned, by all ranks of a job. */
static void check_job(enum shard_strategy strategy, enum shard_remainder remainder, unsigned P,
                      unsigned n, uint64_t key) {
  unsigned owners[MOST] = {0}, places[MOST], least = MOST, most = 0, sum = 0;
  struct shard_share s;
  for (unsigned r = 0; r < P; r++) {
    unsigned count = count_places(strategy, remainder, r, P, n, places);
    shard_share_init(&s, strategy, remainder, r, P, n, key);
    check_share(&s, places, count);
    for (unsigned i = 0; i < n; i++) {
      owners[i] += shard_share_owns(&s, i);
    }
    least = count < least ? count : least;
    most = count > most ? count : most;
    sum += count;
  }
  bool keep = remainder == SHARD_REMAINDER_KEEP, drop = remainder == SHARD_REMAINDER_DROP;
  assert_true(most - least <= keep);
  assert_int_equal(sum, keep ? n : drop ? n / P * P : (n + P - 1) / P * P);
  for (unsigned i = 0; i < n; i++) { /* whose there are by the order, not by the place of a name */
    uint64_t place = key ? shard_permute_back(&s.permutation, i) : i;
    unsigned want = keep ? 1 : drop ? place < n / P * P : (sum - (unsigned)place + n - 1) / n;
    assert_int_equal(owners[i], want);
  }
}

static void by_counting(void **state) {
  (void)state;
  static const uint64_t keys[] = {0, 1, 0xfeedfacecafebeefULL};
  for (int strategy = SHARD_STRATEGY_RANGE; strategy <= SHARD_STRATEGY_STRIDE; strategy++) {
    for (int remainder = SHARD_REMAINDER_KEEP; remainder <= SHARD_REMAINDER_REPEAT; remainder++) {
      for (unsigned n = 0; n <= MOST; n++) {
        for (unsigned P = 1; P <= MOST; P++) {
          for (size_t k = 0; k < COUNT(keys); k++) {
            check_job((enum shard_strategy)strategy, (enum shard_remainder)remainder, P, n,
                      keys[k]);
          }
        }
      }
    }
  }
}

static void suffices(void **state) {
  (void)state;
  for (unsigned n = 0; n <= MOST; n++) {
    for (unsigned P = 1; P <= MOST; P++) {
      assert_true(shard_share_suffices(SHARD_REMAINDER_KEEP, P, n));
      assert_true(shard_share_suffices(SHARD_REMAINDER_REPEAT, P, n));
      assert_int_equal(shard_share_suffices(SHARD_REMAINDER_DROP, P, n), n >= P);
    }
  }
}

/* The most positions and ranks there can be: nothing overflows. */
static void large(void **state) {
  (void)state;
  static const uint64_t counts[] = {(1ULL << 62) - 1, 1ULL << 62, (1ULL << 40) + 17, 5};
  static const uint32_t sizes[] = {3, 1000, 0x7fffffff};
  for (size_t c = 0; c < COUNT(counts); c++) {
    for (size_t z = 0; z < COUNT(sizes); z++) {
      uint64_t n = counts[c];
      uint32_t P = sizes[z], ranks[] = {0, 1, P / 2, P - 2, P - 1};
      for (int what = 0; what < 6; what++) {
        enum shard_remainder remainder = (enum shard_remainder)(what / 2);
        for (size_t k = 0; k < COUNT(ranks); k++) {
          struct shard_share s;
          shard_share_init(&s, (enum shard_strategy)(what % 2), remainder, ranks[k], P, n, c & 1);
          assert_in_range(s.count, n / P,
                          n / P + (n % P != 0 && remainder != SHARD_REMAINDER_DROP));
          for (uint64_t j = 0; j < s.count; j += s.count / 7 + 1) {
            uint64_t place = shard_share_place(&s, j);
            assert_true(place < n && shard_share_owns(&s, shard_share_position(&s, place)));
          }
        }
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(by_counting),
      cmocka_unit_test(suffices),
      cmocka_unit_test(large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
