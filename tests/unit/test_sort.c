/* SPDX-License-Identifier: MIT */
/*
 * The sorter against qsort(3): any names, all orders, in memory and through runs on disk; and that
 * it is stable.
 */
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "build/batch.h"
#include "build/sorter.h"
#include "libshard.h"
#include "listing/codec.h"
#include "unit.h"

struct one {
  char *name;
  size_t length, index;
  uint64_t ino;
};

struct all {
  struct one *v;
  size_t count, at;
  uint32_t order;
  bool attributes, stable;
};

static uint32_t sort_order;

static int compare(const void *pa, const void *pb) {
  const struct one *a = pa, *b = pb;
  int c = shard_codec_compare_names(sort_order, a->name, a->length, b->name, b->length);
  return c ? c : (a->index > b->index) - (a->index < b->index);
}

static int on_name(void *context, const char *name, size_t length, uint64_t ino, uint8_t type) {
  struct all *a = context;
  assert_true(a->at < a->count);
  const struct one *want = &a->v[a->at++];
  assert_int_equal(length, want->length);
  assert_memory_equal(name, want->name, length);
  if (a->attributes) {
    assert_int_equal(type, ino % 13);
  }
  if (a->attributes && a->stable) {
    assert_int_equal(ino, want->ino);
  }
  return 0;
}

enum kind { NUMBERED, RANDOM, PATHS, EQUAL_BEGINNINGS, SORTED, REVERSED, LONG, KINDS };

static const uint32_t orders[] = {SHARD_ORDER_PATH, SHARD_ORDER_BASENAME};

static size_t make_name(enum kind kind, size_t i, size_t n, uint64_t *seed, char *name) {
  uint64_t r = unit_random(seed);
  switch (kind) {
  case NUMBERED:
    return (size_t)sprintf(name, "img_%07zu_of_%07zu.jpeg", (size_t)(r % (2 * n)), n);
  case PATHS:
    return (size_t)sprintf(name, "%s%llu/%llu/f%llu", r & 1 ? "dir" : "d",
                           (unsigned long long)(r >> 8) % 7, (unsigned long long)(r >> 20) % 50,
                           (unsigned long long)(r >> 32) % 1000);
  case EQUAL_BEGINNINGS: {
    size_t k = (r >> 8) % 60;
    memset(name, 'a', k);
    name[k] = (char)(1 + r % 255);
    name[k + 1] = 0;
    return k + 1;
  }
  case SORTED:
    return (size_t)sprintf(name, "%010zu", i);
  case REVERSED:
    return (size_t)sprintf(name, "%010zu", n - i);
  case LONG: {
    size_t k = 3000 + r % 3000;
    memset(name, 'x', k);
    sprintf(name + k, "%llu", (unsigned long long)(r >> 40));
    return strlen(name);
  }
  default: {
    size_t k = 1 + r % 40;
    for (size_t j = 0; j < k; j++) {
      name[j] = (char)(1 + unit_random(seed) % 255);
    }
    return k;
  }
  }
}

static void check(enum kind kind, size_t n, uint32_t order, bool attributes, size_t memory,
                  size_t feeders) {
  static char name[SHARD_NAME_MAX];
  static const char *const folders[] = {"/var/tmp", "/tmp", NULL};
  struct all a = {.v = calloc(n + 1, sizeof(*a.v)),
                  .count = n,
                  .order = order,
                  .attributes = attributes,
                  .stable = feeders == 1};
  struct shard_sorter *s = shard_sorter_new(order, attributes, memory, folders);
  struct shard_feeder f[4] = {{s, NULL}, {s, NULL}, {s, NULL}, {s, NULL}};
  uint64_t seed = n * 31 + kind;
  assert_non_null(s);
  for (size_t i = 0; i < n; i++) {
    size_t length = make_name(kind, i, n, &seed, name);
    uint64_t ino = unit_random(&seed);
    a.v[i] = (struct one){malloc(length + 1), length, i, ino};
    memcpy(a.v[i].name, name, length);
    assert_int_equal(shard_sorter_feed(&f[i % feeders], name, length, ino, (uint8_t)(ino % 13)), 0);
  }
  for (size_t k = 0; k < feeders; k++) {
    assert_int_equal(shard_sorter_end_feed(&f[k]), 0);
  }
  assert_int_equal(shard_sorter_count(s), n);
  sort_order = order;
  qsort(a.v, n, sizeof(*a.v), compare);
  int rc = shard_sorter_merge(s, on_name, &a);
  assert_string_equal(shard_sorter_error(s), "");
  assert_int_equal(rc, 0);
  assert_int_equal(a.at, n);
  shard_sorter_free(s);
  for (size_t i = 0; i < n; i++) {
    free(a.v[i].name);
  }
  free(a.v);
}

static void in_memory(void **state) {
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    for (size_t k = 0; k < COUNT(orders); k++) {
      uint32_t order = orders[k];
      check((enum kind)kind, 0, order, true, (size_t)64 << 20, 1);
      check((enum kind)kind, 1, order, true, (size_t)64 << 20, 1);
      check((enum kind)kind, 500, order, false, (size_t)64 << 20, 2);
      check((enum kind)kind, 5000, order, true, (size_t)64 << 20, 4);
      check((enum kind)kind, 20000, order, true, (size_t)64 << 20, 1);
    }
  }
}

/* What does not fit into memory goes to a disk only. */
static void need_disk(void) {
  struct statfs fs;
  if (statfs("/var/tmp", &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)) {
    skip();
  }
}

/* The least memory there is: many runs, and merges of merges. */
static void on_disk(void **state) {
  (void)state;
  need_disk();
  for (int kind = 0; kind < KINDS; kind++) {
    for (size_t k = 0; k < COUNT(orders); k++) {
      uint32_t order = orders[k];
      check((enum kind)kind,
            kind == LONG       ? 3000
            : kind == NUMBERED ? 120000
                               : 30000,
            order, order == 0, (size_t)1 << 20, kind % 4 + 1);
    }
    check((enum kind)kind, kind == LONG ? 2000 : 30000, 0, true, (size_t)1 << 20, 1);
  }
}

static int refuse(void *context, const char *name, size_t length, uint64_t ino, uint8_t type) {
  (void)name, (void)length, (void)ino, (void)type;
  return --*(int *)context > 0 ? 0 : -ENOSPC;
}

/* The receiver's error ends the merge; a sorter may be freed at any time. */
static void given_up(void **state) {
  (void)state;
  need_disk();
  static const char *const folders[] = {"/var/tmp", NULL};
  for (int names = 0; names < 30000; names = names * 3 + 1) {
    struct shard_sorter *s = shard_sorter_new(0, false, (size_t)1 << 20, folders);
    struct shard_feeder f = {s, NULL};
    char name[64];
    for (int i = 0; i < names; i++) {
      int n = sprintf(name, "%d-%040d", i * 7919 % 30011, i);
      assert_int_equal(shard_sorter_feed(&f, name, (size_t)n, 0, 0), 0);
    }
    assert_int_equal(shard_sorter_end_feed(&f), 0);
    if (names % 2) {
      int left = names / 2 + 1;
      assert_int_equal(shard_sorter_merge(s, refuse, &left), -ENOSPC);
    }
    shard_sorter_free(s);
  }
}

/* No folder on a disk: an error that says so, not memory. */
static void fail_without(const char *folder, int expected, const char *told) {
  const char *const folders[] = {folder, NULL};
  struct shard_sorter *s = shard_sorter_new(0, false, (size_t)1 << 20, folders);
  struct shard_feeder f = {s, NULL};
  char name[64];
  int rc = 0;
  for (int i = 0; i < 200000 && rc == 0; i++) {
    int n = sprintf(name, "%d-%040d", i * 7919 % 200003, i);
    rc = shard_sorter_feed(&f, name, (size_t)n, 0, 0);
  }
  rc = rc ? rc : shard_sorter_end_feed(&f);
  int left = 1 << 30;
  rc = rc ? rc : shard_sorter_merge(s, refuse, &left);
  assert_int_equal(rc, expected);
  assert_non_null(strstr(shard_sorter_error(s), "TMPDIR"));
  assert_non_null(strstr(shard_sorter_error(s), told));
  shard_sorter_free(s);
}

static void no_folder(void **state) {
  (void)state;
  fail_without("/no/such/folder", -ENOENT, "'/no/such/folder'");
  fail_without("/dev/shm", -ENOSPC, "no folder on disk");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_memory),
      cmocka_unit_test(on_disk),
      cmocka_unit_test(given_up),
      cmocka_unit_test(no_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
