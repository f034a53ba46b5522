/* SPDX-License-Identifier: MIT */
/*
 * Which positions are whose.
 * Links: shard/shard
 */
#include "libshard.h"
#include "shard/shard.h"
#include "unit.h"
#include <stdio.h>

static bool owns(enum shard_strategy strategy, uint64_t i, uint64_t n, uint32_t size,
                 uint32_t rank) {
  struct shard_share share;
  shard_share_init(&share, strategy, rank, size, n, 0);
  return shard_share_owns(&share, i);
}

static void range_covers(void **state) {
  (void)state;
  static const uint64_t large[] = {1u << 20, 999999937, (uint64_t)1 << 32, ((uint64_t)1 << 40) - 1,
                                   (uint64_t)1 << 40};
  for (uint32_t size = 1; size <= 17; size++) {
    for (uint64_t k = 0; k < 200 + COUNT(large); k++) {
      uint64_t n = k < 200 ? k : large[k - 200], expected = 0;
      for (uint32_t rank = 0; rank < size; rank++) {
        uint64_t begin = 77, end = 77;
        shard_range(n, rank, size, &begin, &end);
        assert_int_equal(begin, expected); /* no gap, nothing twice */
        assert_in_range(end - begin, n / size, n / size + (n % size != 0));
        expected = end;
      }
      assert_int_equal(expected, n);
    }
  }
}

static void owner_agrees_with_range(void **state) {
  (void)state;
  for (uint32_t size = 1; size <= 17; size++) {
    for (uint64_t n = 1; n < 120; n++) {
      for (uint64_t i = 0; i < n; i++) {
        uint32_t owners = 0;
        for (uint32_t rank = 0; rank < size; rank++) {
          uint64_t begin, end;
          shard_range(n, rank, size, &begin, &end);
          if (begin <= i && i < end) {
            owners++;
          }
          assert_int_equal(owns(SHARD_STRATEGY_RANGE, i, n, size, rank), begin <= i && i < end);
        }
        assert_int_equal(owners, 1);
      }
    }
  }
}

/* At large n, where shares begin and end, and at random. */
static void owner_large(void **state) {
  (void)state;
  uint64_t seed = 12345;
  for (int shift = 20; shift <= 40; shift += 5) {
    for (int off = -1; off <= 1; off++) {
      uint64_t n = ((uint64_t)1 << shift) + (uint64_t)off;
      for (uint32_t size = 1; size <= 17; size++) {
        for (uint32_t rank = 0; rank < size; rank++) {
          uint64_t begin, end;
          shard_range(n, rank, size, &begin, &end);
          uint64_t some = begin + unit_random(&seed) % (end - begin);
          assert_true(owns(SHARD_STRATEGY_RANGE, begin, n, size, rank));
          assert_true(owns(SHARD_STRATEGY_RANGE, end - 1, n, size, rank));
          assert_true(owns(SHARD_STRATEGY_RANGE, some, n, size, rank));
        }
      }
    }
  }
}

static void stride(void **state) {
  (void)state;
  for (uint32_t size = 1; size <= 17; size++) {
    for (uint64_t n = 1; n < 100; n++) {
      uint64_t share[17] = {0};
      for (uint64_t i = 0; i < n; i++) {
        for (uint32_t rank = 0; rank < size; rank++) {
          bool owned = owns(SHARD_STRATEGY_STRIDE, i, n, size, rank);
          assert_int_equal(owned, i % size == rank);
          share[rank] += owned;
        }
      }
      for (uint32_t rank = 0; rank < size; rank++) {
        assert_in_range(share[rank], n / size, n / size + (n % size != 0));
      }
    }
    uint64_t far = (uint64_t)1 << 40;
    assert_true(owns(SHARD_STRATEGY_STRIDE, far - 1, far, size, (uint32_t)((far - 1) % size)));
  }
}

/* The most ranks there can be. */
static void many_ranks(void **state) {
  (void)state;
  uint32_t size = 0x7fffffff;
  uint64_t n = (uint64_t)1 << 40, begin, end;
  uint32_t ranks[] = {0, 1, size / 2, size - 2, size - 1};
  for (size_t k = 0; k < COUNT(ranks); k++) {
    shard_range(n, ranks[k], size, &begin, &end);
    assert_in_range(end - begin, n / size, n / size + 1);
    assert_true(owns(SHARD_STRATEGY_RANGE, begin, n, size, ranks[k]));
    assert_true(owns(SHARD_STRATEGY_RANGE, end - 1, n, size, ranks[k]));
  }
  assert_int_equal(end, n);
  shard_range(3, 5, size, &begin, &end); /* fewer files than ranks */
  assert_int_equal(begin, end);
}

/* By hash, ranks have about as many names each. */
static void owners_by_name(void **state) {
  (void)state;
  enum { SIZE = 7, NAMES = 7000 };
  unsigned has[SIZE] = {0};
  char name[32];
  for (unsigned i = 0; i < NAMES; i++) {
    int n = snprintf(name, sizeof(name), "a/img_%05u.jpeg", i);
    uint32_t owner = shard_owner_by_name(name, (size_t)n, 3, SIZE);
    assert_true(owner < SIZE);
    has[owner]++;
  }
  for (unsigned r = 0; r < SIZE; r++) {
    assert_in_range(has[r], NAMES / SIZE * 8 / 10, NAMES / SIZE * 12 / 10);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(range_covers), cmocka_unit_test(owner_agrees_with_range),
      cmocka_unit_test(owner_large),  cmocka_unit_test(stride),
      cmocka_unit_test(many_ranks),   cmocka_unit_test(owners_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
