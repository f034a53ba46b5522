/* SPDX-License-Identifier: MIT */
/*
 * Sums of names: shares as computed by the whole listing, and what `shardctl verify` rests upon:
 * the sums of a partition add up, and those of anything else do not.
 * Links: ctl/nameset shard/shard listing/writer listing/reader -lcrypto
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xxh64.h"
#include "ctl/nameset.h"
#include "names.h"
#include "scratch.h"

static struct shard_listing *make(struct names *s) {
  char digest[65];
  uint64_t bytes;
  struct shard_listing *l;
  names_sort(s, 0);
  assert_int_equal(names_write(s, 0, file, digest, &bytes), 0);
  assert_int_equal(shard_listing_open(file, &l), 0);
  return l;
}

static uint64_t hash(const char *name) { return shard_xxh64(name, strlen(name), 0); }

static void partitions(void **state) {
  (void)state;
  struct names s = {0};
  names_odd(&s, 777, 5);
  struct shard_listing *l = make(&s);
  uint64_t whole_sum = 0;
  for (size_t i = 0; i < s.count; i++) {
    whole_sum += hash(s.v[i]);
  }
  for (int strategy = SHARD_STRATEGY_RANGE; strategy <= SHARD_STRATEGY_STRIDE; strategy++) {
    for (uint64_t key = 0; key < 3; key++) {
      struct ctl_nameset_share shares[7];
      struct ctl_nameset whole, sum = {0};
      for (uint32_t r = 0; r < 7; r++) {
        shard_share_init(&shares[r].share, (enum shard_strategy)strategy, SHARD_REMAINDER_KEEP, r,
                         7, s.count, key);
      }
      assert_int_equal(ctl_nameset_sum(l, NULL, 0, &whole, shares, 7), 0);
      assert_int_equal(whole.count, s.count);
      assert_true(whole.sum == whole_sum);
      for (uint32_t r = 0; r < 7; r++) {
        struct ctl_nameset own = {0}; /* in the order of the share */
        const struct shard_share *share = &shares[r].share;
        for (uint64_t k = 0; k < share->count; k++) {
          own.count++;
          own.sum += hash(s.v[shard_share_at(share, shard_share_place(share, k))]);
        }
        assert_int_equal(own.count, shares[r].owned.count);
        assert_true(own.sum == shares[r].owned.sum);
        sum.count += own.count;
        sum.sum += own.sum;
      }
      assert_true(sum.count == whole.count && sum.sum == whole.sum);
    }
  }
  shard_listing_close(l);
  names_free(&s);
}

/* No name can stand in for another. */
static void no_two_sums(void **state) {
  (void)state;
  struct names s = {0};
  names_numbered(&s, 2000);
  names_sort(&s, 0);
  for (size_t i = 0; i < s.count; i++) {
    for (size_t k = 0; k < i; k++) {
      assert_true(hash(s.v[i]) != hash(s.v[k]));
    }
  }
  names_free(&s);
}

static void inner_datasets(void **state) {
  (void)state;
  static const char *const all[] = {"a", "b/1", "b/2", "b.x/1", "b0", "c/d/1", "c/d2", "c/e", "ca"};
  static const char *const left[] = {"a", "b.x/1", "b0", "c/d2", "c/e", "ca"};
  const char *inner[] = {"b", "c/d"};
  struct names s = {0};
  for (size_t i = 0; i < COUNT(all); i++) {
    names_add(&s, all[i], strlen(all[i]));
  }
  struct shard_listing *l = make(&s);
  struct ctl_nameset_share share;
  struct ctl_nameset whole;
  shard_share_init(&share.share, SHARD_STRATEGY_RANGE, SHARD_REMAINDER_KEEP, 1, 2, COUNT(left), 0);
  assert_int_equal(ctl_nameset_sum(l, inner, 2, &whole, &share, 1), 0);
  assert_int_equal(whole.count, COUNT(left));
  assert_int_equal(share.owned.count, 3);
  assert_true(share.owned.sum == hash(left[3]) + hash(left[4]) + hash(left[5]));
  /* another listing than the shares were made for */
  shard_share_init(&share.share, SHARD_STRATEGY_RANGE, SHARD_REMAINDER_KEEP, 1, 2, COUNT(left) - 1,
                   0);
  assert_int_equal(ctl_nameset_sum(l, inner, 2, &whole, &share, 1), -ESTALE);
  shard_share_init(&share.share, SHARD_STRATEGY_RANGE, SHARD_REMAINDER_KEEP, 1, 2, COUNT(left) + 1,
                   0);
  assert_int_equal(ctl_nameset_sum(l, inner, 2, &whole, &share, 1), -ESTALE);
  shard_listing_close(l);
  names_free(&s);
}

static void empty(void **state) {
  (void)state;
  struct names s = {0};
  struct shard_listing *l = make(&s);
  struct ctl_nameset_share share;
  struct ctl_nameset whole;
  shard_share_init(&share.share, SHARD_STRATEGY_STRIDE, SHARD_REMAINDER_KEEP, 1, 2, 0, 0);
  assert_int_equal(ctl_nameset_sum(l, NULL, 0, &whole, &share, 1), 0);
  assert_true(whole.count == 0 && whole.sum == 0 && share.owned.count == 0);
  shard_listing_close(l);
  names_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(partitions),
      cmocka_unit_test(no_two_sums),
      cmocka_unit_test(inner_datasets),
      cmocka_unit_test(empty),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
