/* SPDX-License-Identifier: MIT */
/*
 * The shuffle, the hash of names, and ranges.
 * Links: shard/permute shard/xxh64 shard/shard
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh64.h"
#include "libshard.h"
#include "shard/permute.h"
#include "shard/shard.h"
#include "unit.h"

/* ---- the permutation --------------------------------------------------------------------------
 */

static void bijection(void **state) {
  (void)state;
  static uint8_t seen[2001];
  static const uint64_t keys[] = {1, 0x123456789abcdef, UINT64_MAX};
  for (uint64_t n = 1; n <= 2000; n++) {
    struct shard_permutation p;
    shard_permutation_init(&p, n, keys[n % COUNT(keys)] + n);
    memset(seen, 0, sizeof(seen));
    for (uint64_t i = 0; i < n; i++) {
      uint64_t to = shard_permute(&p, i);
      assert_true(to < n);
      assert_int_equal(seen[to]++, 0);
      assert_int_equal(shard_permute_back(&p, to), i);
      assert_int_equal(shard_permute(&p, shard_permute_back(&p, i)), i);
    }
  }
}

/* Around powers of two, up to the most there can be. */
static void large(void **state) {
  (void)state;
  uint64_t seed = 4711;
  for (unsigned bits = 11; bits <= 62; bits++) {
    for (int off = -1; off <= (bits < 62); off++) {
      uint64_t n = (1ULL << bits) + (uint64_t)off;
      struct shard_permutation p;
      shard_permutation_init(&p, n, unit_random(&seed));
      for (int k = 0; k < 400; k++) {
        uint64_t i = k == 0 ? 0 : k == 1 ? n - 1 : unit_random(&seed) % n;
        uint64_t to = shard_permute(&p, i);
        assert_true(to < n);
        assert_int_equal(shard_permute_back(&p, to), i);
      }
    }
  }
}

/* Over many keys: where each of few positions goes. */
static void uniform(void **state) {
  (void)state;
  enum { KEYS = 20000 };
  for (uint64_t n = 2; n <= 70; n += n < 10 ? 1 : 12) {
    static uint32_t count[70][70];
    memset(count, 0, sizeof(count));
    for (uint64_t k = 0; k < KEYS; k++) {
      struct shard_permutation p;
      shard_permutation_init(&p, n, shard_shuffle_key(k / 100, k % 100));
      for (uint64_t i = 0; i < n; i++) {
        count[i][shard_permute(&p, i)]++;
      }
    }
    double expected = (double)KEYS / (double)n, chi = 0;
    for (uint64_t i = 0; i < n; i++) {
      for (uint64_t j = 0; j < n; j++) {
        double d = count[i][j] - expected;
        chi += d * d / expected;
      }
    }
    /* (n - 1)^2 degrees of freedom: mean that, variance twice that; six deviations and a bit */
    double freedom = (double)((n - 1) * (n - 1)), bound = freedom + 10;
    for (double root = 1; root * root <= 2 * freedom; root += 1) {
      bound += 6;
    }
    if (chi > bound) {
      fail_msg("n = %u: chi-square %.1f, freedom %.0f", (unsigned)n, chi, freedom);
    }
  }
}

/* All orders of few: 24 of four. */
static void orders(void **state) {
  (void)state;
  enum { KEYS = 48000 };
  uint32_t count[256] = {0}, different = 0;
  double chi = 0, expected = KEYS / 24.0;
  for (uint64_t k = 0; k < KEYS; k++) {
    struct shard_permutation p;
    unsigned code = 0;
    shard_permutation_init(&p, 4, k);
    for (uint64_t i = 0; i < 4; i++) {
      code = code << 2 | (unsigned)shard_permute(&p, i);
    }
    count[code]++;
  }
  for (size_t c = 0; c < COUNT(count); c++) {
    if (count[c]) {
      different++;
      chi += (count[c] - expected) * (count[c] - expected) / expected;
    }
  }
  assert_int_equal(different, 24);
  assert_true(chi < 80); /* 23 degrees of freedom */
}

/* Neighbours are parted, and keys that differ in little give orders that differ in all. */
static void scatters(void **state) {
  (void)state;
  const uint64_t n = 100000;
  struct shard_permutation p, q;
  for (unsigned bit = 0; bit < 64; bit += 7) {
    uint64_t neighbours = 0, fixed = 0, same = 0;
    shard_permutation_init(&p, n, 42);
    shard_permutation_init(&q, n, 42 ^ 1ULL << bit);
    for (uint64_t i = 0; i + 1 < n; i++) {
      uint64_t a = shard_permute(&p, i), b = shard_permute(&p, i + 1);
      neighbours += a + 1 == b;
      fixed += a == i;
      same += a == shard_permute(&q, i);
    }
    assert_true(neighbours < 15 && fixed < 15 && same < 15); /* one of each is expected */
  }
}

static int by_value(const void *pa, const void *pb) {
  uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
  return (a > b) - (a < b);
}

/* No two pairs of small numbers have the same key. */
static void shuffle_keys(void **state) {
  (void)state;
  enum { N = 300 };
  static uint64_t keys[N * N];
  for (uint64_t seed = 0; seed < N; seed++) {
    for (uint64_t epoch = 0; epoch < N; epoch++) {
      keys[seed * N + epoch] = shard_shuffle_key(seed, epoch);
    }
  }
  qsort(keys, N * N, sizeof(*keys), by_value);
  assert_true(keys[0] != 0);
  for (size_t i = 1; i < (size_t)N * N; i++) {
    assert_true(keys[i] != keys[i - 1]);
  }
}

/* ---- XXH64 --------------------------------------------------------------------------------------
 */

/* Of the first i bytes of (31 k + 7) mod 251, by the xxhash package 4.1.0 of Python: i is 0 to 100,
 * first with seed 0, then with 0x9e3779b185ebca8d. */
static const uint64_t vectors[2][101] = {
    {0xef46db3751d8e999, 0xa96c7f0ce858bbb7, 0xac378c5993cd5f9a, 0x56e6957632a487f9,
     0xc60d15b1e3ff8f04, 0x808815858624dd4e, 0xcf22b4e87e9bbd00, 0xafbefc3d6c6f9a8e,
     0x3da5c7aa269683e0, 0x465ec429b13c3892, 0x3923568de983cb15, 0xfba00babfa165738,
     0x9650fde93a383e90, 0x52cc5f72cfbde739, 0x95c8e20c703ab9e2, 0xdee89d8a065a6233,
     0x1330489a77679c80, 0x0bbe879c6150fef5, 0x4d50194207798d68, 0xbf4df6047bc27821,
     0xff96a8ebb59a9938, 0x68a498f00c769eda, 0x5cafec2543cd3e3d, 0x25ced6f7a71fdba8,
     0xedacf320a9fe41eb, 0xaf152aab1972d791, 0xc99570716bc9efdd, 0xa8e2cef005d30cf3,
     0xd007e8033fa586cf, 0x6f53cb37b2f3f2a8, 0x874cf760b4fea6ac, 0x3391303d485e846e,
     0x40b7aff75d45bbc8, 0x4997cae4951c17a5, 0x667dda86d42ba42e, 0x64579322362a42a4,
     0x055c820c07a82f3a, 0x8bb92818821427df, 0xca5d4ccc554c3290, 0x580728fd5c145739,
     0xf95cf6f5c08a3d3b, 0x3b04e97f1ae00a86, 0xd4318dc0e5a4e3e7, 0x08c250b8a817e461,
     0x0970992c2843ca5d, 0x80c4c564fcf70e3b, 0x916da6509d7848b6, 0xbe144774a53030c0,
     0xad721d0452b5d05f, 0x2906715fb33c951c, 0x8aba0f92dca6b0db, 0x4abf6b0b294d394e,
     0x884a18894ceb8ed6, 0xf743ae2b145bb2df, 0xe3643449de78d7d4, 0x9df863ce1959c1ee,
     0x9cc62cedf02d7711, 0x7626dd8bfec324eb, 0xa78d35b8c3011e72, 0xa3f8c95e1b81dc66,
     0xa41c868242384f5f, 0xe8ed7c81c247f668, 0x385f3c9f9ec598c5, 0x2944b4dafc69b206,
     0xbb76f6ef19bd5a1b, 0x814e0c654a9fd640, 0x98439e1c1b3b84ad, 0xb27b5df48962460d,
     0x9f8ffb85217a370d, 0x688d3f79b893ad8e, 0x3cf6735be1c5fe72, 0x6124e993533c6537,
     0xdd50838aa8a94f14, 0xd1d8e110cd5ad90c, 0x53e77470cc272305, 0x1be7fb23e320ec5f,
     0xec3039d6354d3720, 0x0ad2022568364364, 0x5f70301d3ab66179, 0x66cc7f80469046b9,
     0x4cff819d4613afba, 0x0555a6a6e280e80d, 0xe1cfc15d053ae409, 0x16595a174340a03d,
     0x21bde6844a402d4f, 0xec3a48b300cc3804, 0x7357cdca9dd5ab8d, 0xcb3daae87499531c,
     0xccf75624508b861b, 0xcc7e6f4cf18e44ad, 0x4f759230ae0953df, 0x54e7b60e1b40efca,
     0x733c9ad82b86f4eb, 0xf328ff5602b99218, 0xa1601403c6a48e8a, 0x40b76ec4d209158c,
     0xaa0c5393bfa19a1d, 0x725d989a75ad95ef, 0xe23af1970caf7702, 0xb35c3d3cfa34131d,
     0xf0b29a915621716d},
    {0x0b303d920ec349df, 0x76349a430e97f416, 0x4e24ab55ec0ce0c7, 0xc42da545eb6f8983,
     0x52c5131f0829d5fd, 0x75c0b8ce2660aa50, 0x685e6e215ec3be18, 0xf1a46cf925e5669e,
     0x6580dc86eca50f6c, 0x2f3aeb02795e81c1, 0x2638ca77bf895efd, 0xf00d13e8fc865264,
     0xad38a604d0fdc1fb, 0x754e80ea4266e551, 0x41c5bc88503eb1e1, 0x74a0519240f43d40,
     0x344e50eb7f3882da, 0x090748a3fb904545, 0xa84170230c2b6eca, 0xee059539fa0c312f,
     0x6a413b982d72cc41, 0x82b33796a9570c7e, 0x39f4f00fdd3180ed, 0xb5552d3dc82863ef,
     0x08183a81a7720bc4, 0x6ab1d4f937d04170, 0x69d8fd8bb0dad893, 0x09df6f66aa10a2d5,
     0xd0c9319d1291f24e, 0x98310e157e38afb0, 0xe7cdf27493ed7d7c, 0xe455ffea9946bf85,
     0xe1aad27c8cf85ffc, 0x25dc370e9ba78bbc, 0xfb8db7ce68eb36f8, 0x5e8ff37d9d7aef9c,
     0xeb46e3da4501c1f3, 0x2a94c2723150e650, 0x8c7037e36aa56cd3, 0x228c662687ef57ec,
     0x815a39a807bbcdd3, 0xaf19d373f84959e0, 0x17cb2f0fd1c23e30, 0x5a5a51ec5b694607,
     0x1d2c793b2c24153d, 0x6c079e6e7a2361e4, 0xb77acd4eb5af66cb, 0x6732e3c81a70329e,
     0x4e5fedf422382fd3, 0xb328865011ddaba2, 0x43ac963c54a9b2f4, 0x1bbba3791475714a,
     0x9635b6750e2f21a8, 0x355b67136dfd322c, 0xa8d3e690e428a741, 0x41984a93ec2be4cb,
     0xc3c854e41bb782be, 0xdf52de40abcfdca0, 0xe4f8bea93df5852d, 0xe576975de15038ca,
     0x97be766785fc3e10, 0x1cd3c61938b9febe, 0x780d52ae3b3e4eb5, 0xf36c4e7e71a2e4dc,
     0xc9d66e1bb226fb27, 0x9956535275d2bcd2, 0x48967492ad0d4b0e, 0x6c67181d9f60201a,
     0xd3137615b2305261, 0xc0b100f08e01e3ed, 0xe9d113f06739802d, 0x9802cbb917a81a2b,
     0xff09f7b89dfa81c0, 0x93e44c2895f2838e, 0x2dda01e3f34391f4, 0xbac645205f3f7416,
     0x34ceb246d10776f6, 0xe30a5bca9a2bf26c, 0x1a5379f66dc855af, 0x4c4e8139e28306e1,
     0x1b93bacb1552e467, 0xc36d19a5d2314cd1, 0x886739f9da5389c7, 0x22c66b2331a825c5,
     0x910d94d22878e0c3, 0x0c28219ad8dc26db, 0xa0a17a67121a4662, 0x92c8666265a3b6e8,
     0x0267050936fbfce7, 0xf85ef5edb350f011, 0x9808a33284ad081e, 0xe3ea1e141fdeb93a,
     0x3df18765db3791e4, 0xecfc42a8acbd480a, 0x5ee1535bf38714c4, 0xe99048e11664b168,
     0xa1459d8473c1471e, 0x6b509fa5fc14521d, 0xb504123b0d41761b, 0x61bb8c2611ca301a,
     0x6f620d8cf2de859b},
};

static void xxh64(void **state) {
  (void)state;
  uint8_t data[108];
  for (size_t shift = 0; shift < 8; shift++) { /* at any alignment */
    for (size_t k = 0; k < 100; k++) {
      data[shift + k] = (uint8_t)((31 * k + 7) % 251);
    }
    for (size_t n = 0; n <= 100; n++) {
      assert_true(shard_xxh64(data + shift, n, 0) == vectors[0][n]);
      assert_true(shard_xxh64(data + shift, n, 0x9e3779b185ebca8dULL) == vectors[1][n]);
    }
  }
  assert_true(shard_xxh64("", 0, 0) == 0xef46db3751d8e999ULL);
  assert_true(shard_xxh64("abc", 3, 0) == 0x44bc2cf5ad770999ULL); /* published */
  /* 0x44bc2cf5ad770999 is 0.268 of 2^64 */
  assert_int_equal(shard_owner_by_name("abc", 3, 0, 1000), 268);
}

/* ---- shares -------------------------------------------------------------------------------------
 */

/* Ranges follow each other without a gap, and differ by one at most. */
static void ranges(void **state) {
  (void)state;
  static const uint64_t large[] = {1u << 20, 999999937, (uint64_t)1 << 32, ((uint64_t)1 << 40) - 1,
                                   (uint64_t)1 << 40};
  struct shard_share s;
  uint64_t begin, end;
  for (uint32_t size = 1; size <= 17; size++) {
    for (uint64_t k = 0; k < 200 + COUNT(large); k++) {
      uint64_t n = k < 200 ? k : large[k - 200], expected = 0;
      for (uint32_t rank = 0; rank < size; rank++) {
        shard_range(n, rank, size, &begin, &end);
        assert_int_equal(begin, expected);
        assert_in_range(end - begin, n / size, n / size + (n % size != 0));
        expected = end;
        shard_share_init(&s, SHARD_STRATEGY_RANGE, SHARD_REMAINDER_KEEP, rank, size, n, 0);
        assert_true(begin == end || (shard_share_owns(&s, begin) && shard_share_owns(&s, end - 1)));
      }
      assert_int_equal(expected, n);
    }
  }
  /* The most ranks there can be; and fewer files than ranks. */
  uint32_t size = 0x7fffffff, ranks[] = {0, 1, size / 2, size - 2, size - 1};
  uint64_t n = (uint64_t)1 << 40;
  for (size_t k = 0; k < COUNT(ranks); k++) {
    shard_range(n, ranks[k], size, &begin, &end);
    shard_share_init(&s, SHARD_STRATEGY_RANGE, SHARD_REMAINDER_KEEP, ranks[k], size, n, 0);
    assert_in_range(end - begin, n / size, n / size + 1);
    assert_true(shard_share_owns(&s, begin) && shard_share_owns(&s, end - 1));
  }
  assert_int_equal(end, n);
  shard_range(3, 5, size, &begin, &end);
  assert_int_equal(begin, end);
}

/* libshard.h's calls: by seed and epoch. */
static void of_epochs(void **state) {
  (void)state;
  enum { N = 1000 };
  int same = 0;
  for (uint64_t epoch = 1; epoch <= 3; epoch++) {
    uint8_t seen[N] = {0};
    for (uint64_t i = 0; i < N; i++) {
      uint64_t to = shard_shuffle(i, N, 7, epoch);
      assert_true(to < N && !seen[to]++);
      assert_int_equal(shard_shuffle_back(to, N, 7, epoch), i);
      same += to == shard_shuffle(i, N, 7, epoch + 1);
      same += to == shard_shuffle(i, N, 8, epoch);
    }
  }
  assert_in_range(same, 0, 30); /* 6 are expected */
}

/* Shares by the hash are even enough, and another key gives another share. */
static void hashed(void **state) {
  (void)state;
  enum { NAMES = 20000, SIZE = 7 };
  uint32_t count[SIZE] = {0}, moved = 0;
  for (int i = 0; i < NAMES; i++) {
    char name[64];
    size_t n = (size_t)snprintf(name, sizeof(name), "img_%07d_of_20000.jpeg", i);
    uint32_t owner = shard_owner_by_name(name, n, 0, SIZE);
    assert_true(owner < SIZE);
    assert_int_equal(shard_owner_by_name(name, n, 5, 1), 0);
    count[owner]++;
    moved += owner != shard_owner_by_name(name, n, shard_shuffle_key(1, 2), SIZE);
  }
  for (int r = 0; r < SIZE; r++) {
    assert_in_range(count[r], NAMES / SIZE - 300, NAMES / SIZE + 300); /* six deviations */
  }
  assert_in_range(moved, NAMES * 6 / 7 - 300, NAMES * 6 / 7 + 300);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bijection), cmocka_unit_test(large),    cmocka_unit_test(uniform),
      cmocka_unit_test(orders),    cmocka_unit_test(scatters), cmocka_unit_test(shuffle_keys),
      cmocka_unit_test(xxh64),     cmocka_unit_test(hashed),   cmocka_unit_test(of_epochs),
      cmocka_unit_test(ranges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
