/* SPDX-License-Identifier: MIT */
/*
 * Where ranges of keys are divided, and folders that are known by name.
 * Links: all of source/s3
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/s3/folders.h"
#include "source/s3/s3.h"
#include "source/s3/split.h"
#include "unit.h"

static struct shard_s3_text text_of(const char *text) {
  struct shard_s3_text t = {.length = strlen(text)};
  strcpy(t.bytes, text);
  return t;
}

static bool is_utf8(const char *p, size_t n) {
  for (size_t i = 0; i < n;) {
    unsigned char c = (unsigned char)p[i];
    size_t more = c < 0x80                ? 0
                  : c >= 0xc2 && c < 0xe0 ? 1
                  : (c & 0xf0) == 0xe0    ? 2
                  : c >= 0xf0 && c < 0xf5 ? 3
                                          : 99;
    if (more == 99 || i + more >= n + (more == 0)) {
      return false;
    }
    for (size_t k = 1; k <= more; k++) {
      if (((unsigned char)p[i + k] & 0xc0) != 0x80) {
        return false;
      }
    }
    i += more + 1;
  }
  return true;
}

/* Where numbered names are divided after their first page. */
static void splits_of_numbers(void **state) {
  (void)state;
  struct shard_s3_seen *seen = calloc(1, sizeof(*seen));
  char key[64], before[64] = "";
  for (int i = 0; i < 1000; i++) {
    snprintf(key, sizeof(key), "img_%07d", i);
    shard_s3_split_note(seen, i ? before : NULL, strlen(before), key, strlen(key));
    strcpy(before, key);
  }
  struct shard_s3_text at = text_of(before), middle, first = text_of("img_0000000"), end;
  struct shard_s3_span span = {.at = &at, .seen = seen};
  assert_true(
      shard_s3_split_between(&span, 0.5, &middle)); /* is there more after the first thousand? */
  assert_int_equal(middle.length, 8);
  assert_memory_equal(middle.bytes, "img_0001", 8);
  assert_true(shard_s3_split_left(&span, &first, 1000) >= SHARD_S3_UNKNOWN);
  end = middle; /* and then nothing is left below */
  span.end = &end;
  assert_true(shard_s3_split_left(&span, &first, 1000) < 100);

  end = text_of("img_0003");
  at = text_of("img_0000499");
  assert_true(shard_s3_split_between(&span, 0.5, &middle));
  assert_true(shard_codec_compare_bytes(middle.bytes, middle.length, at.bytes, at.length) > 0);
  assert_true(shard_codec_compare_bytes(middle.bytes, middle.length, end.bytes, end.length) < 0);
  free(seen);
}

/* Once a digit has varied, keys are known to be numbers, and can be divided in any proportion. */
static void splits_in_parts(void **state) {
  (void)state;
  static const struct {
    const char *first, *second, *third, *end; /* pages of 1,000 that begin there have been seen */
    double part, left;
    const char *least, *most; /* where it is divided */
    size_t prefix;
  } cases[] = {
      {"img_0000000", "img_0100000", "img_0100999", "img_1", 0.25, 899000, "img_032", "img_033", 0},
      {"img_0000000", "img_0100000", "img_0100999", "img_1", 0.5, 899000, "img_054", "img_056", 0},
      {"\xe5\x9b\xbe/\xe4\xb8\x80", "\xe5\x9b\xbe/\xe5\x80\x80", "\xe5\x9b\xbe/\xe5\x80\xbf", NULL,
       0.5, 129000, "\xe5\x9b\xbe/\xe5\xbc", "\xe5\x9b\xbe/\xe6\x84", 4},
      {"0000-", "1000-", "100f-", "2", 0.5, 255 * 1000, "17", "19", 0},
  };
  struct shard_s3_seen *seen = calloc(1, sizeof(*seen));
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct shard_s3_text first = text_of(cases[i].first), second = text_of(cases[i].second);
    struct shard_s3_text at = text_of(cases[i].third), middle;
    struct shard_s3_text end = text_of(cases[i].end ? cases[i].end : "");
    memset(seen, 0, sizeof(*seen));
    shard_s3_split_note(seen, NULL, 0, first.bytes, first.length);
    shard_s3_split_note(seen, NULL, 0, second.bytes, second.length);
    shard_s3_split_note(seen, NULL, 0, at.bytes, at.length);
    struct shard_s3_span span = {
        .at = &at, .end = cases[i].end ? &end : NULL, .seen = seen, .prefix = cases[i].prefix};
    double left = shard_s3_split_left(&span, &second, 1000);
    if (left < 0.9 * cases[i].left || left > 1.1 * cases[i].left) {
      fail_msg("case %zu: %.0f left", i, left);
    }
    assert_true(shard_s3_split_between(&span, cases[i].part, &middle));
    if (shard_codec_compare_bytes(middle.bytes, middle.length, cases[i].least,
                                  strlen(cases[i].least)) < 0 ||
        shard_codec_compare_bytes(middle.bytes, middle.length, cases[i].most,
                                  strlen(cases[i].most)) > 0) {
      fail_msg("case %zu: divided at %.*s", i, (int)middle.length, middle.bytes);
    }
    assert_true(is_utf8(middle.bytes, middle.length));
  }
  free(seen);
}

/* Guesses ahead of the answer to the last: a digit further up, never into the name. */
static void splits_further(void **state) {
  (void)state;
  static const struct {
    const char *at, *guess; /* NULL: there is none */
  } cases[] = {{"img_0001", "img_001"},
               {"img_001", "img_01"},
               {"img_1", NULL},
               {"train/y", NULL},
               {"\xe5\x9b\xbe/\xe4\xb9\x80", "\xe5\x9b\xbe/\xe5\x80\x80"}};
  struct shard_s3_seen *seen = calloc(1, sizeof(*seen));
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct shard_s3_text at = text_of(cases[i].at), middle;
    memset(seen, 0, sizeof(*seen));
    shard_s3_split_note(seen, NULL, 0, at.bytes, at.length);
    struct shard_s3_span span = {.at = &at, .seen = seen, .guess = true};
    assert_int_equal(shard_s3_split_between(&span, 0.5, &middle), cases[i].guess != NULL);
    if (cases[i].guess) {
      assert_int_equal(middle.length, strlen(cases[i].guess));
      assert_memory_equal(middle.bytes, cases[i].guess, middle.length);
    }
  }
  free(seen);
}

/* Folders in order, and which folder's are worth knowing. */
static void folders(void **state) {
  (void)state;
  struct shard_s3_folders f = {0};
  static const char *const names[] = {"b/", "a/", "c/", "a/", "\xff/"};
  for (size_t i = 0; i < COUNT(names); i++) {
    assert_int_equal(shard_s3_folders_add(&f, names[i], strlen(names[i]), i == 2), 0);
  }
  assert_int_equal(f.count, 4);
  struct shard_s3_text after = text_of("a/"), end = text_of("c/");
  size_t first;
  assert_int_equal(shard_s3_folders_between(&f, &after, NULL, &first), 3);
  assert_int_equal(first, 1);
  assert_true(f.list[2].open);
  assert_int_equal(shard_s3_folders_between(&f, &after, &end, &first), 1);
  assert_int_equal(shard_s3_folders_between(&f, &end, &after, &first), 0);
  shard_s3_folders_free(&f);
  static const struct {
    const char *first, *last;
    size_t prefix;
    int parent;
  } cases[] = {{"a/b/1", "a/b/2", 0, 2}, {"a/b/1", "a/c/2", 0, 2}, {"a/1", "b/2", 0, 0},
               {"a/1", "a/2", 0, 0},     {"1", "2", 0, -1},        {"a/1", "a/2", 2, -1},
               {"a/b/1", "a/b/2", 2, 2}, {"a/b/1", "a/b/2", 4, -1}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct shard_s3_text from = text_of(cases[i].first), to = text_of(cases[i].last);
    assert_int_equal(shard_s3_folders_parent(&from, &to, cases[i].prefix), cases[i].parent);
  }
}

/* Whatever the keys: what comes out is text that lies between. */
static void splits_lie_between(void **state) {
  (void)state;
  static const char *const alphabets[] = {"ab", "0123456789", "0123456789abcdef", "aZ09_-/.~ ",
                                          "\x01\x7f\x1f z"};
  static const char *const wide[] = {"\xc3\xa9",
                                     "\xdf\xbf",
                                     "\xe5\x9b\xbe",
                                     "\xed\x9f\xbf",
                                     "\xef\xbf\xbd",
                                     "\xf0\x9f\x98\x80",
                                     "\xf4\x8f\xbf\xbf",
                                     "a",
                                     "0"};
  struct shard_s3_seen *seen = calloc(1, sizeof(*seen));
  uint64_t random = 7;
  int found = 0;
  for (int round = 0; round < 20000; round++) {
    struct shard_s3_text keys[3] = {0};
    size_t kind = unit_random(&random) % (COUNT(alphabets) + 1);
    for (size_t k = 0; k < 3; k++) {
      size_t parts = 1 + unit_random(&random) % 12;
      for (size_t i = 0; i < parts; i++) {
        char one[8] = "";
        if (kind < COUNT(alphabets)) {
          one[0] = alphabets[kind][unit_random(&random) % strlen(alphabets[kind])];
        } else {
          strcpy(one, wide[unit_random(&random) % COUNT(wide)]);
        }
        memcpy(keys[k].bytes + keys[k].length, one, strlen(one));
        keys[k].length += strlen(one);
      }
    }
    for (size_t i = 0; i < 2; i++) {
      for (size_t k = 0; k < 2; k++) {
        if (shard_codec_compare_bytes(keys[k].bytes, keys[k].length, keys[k + 1].bytes,
                                      keys[k + 1].length) > 0) {
          struct shard_s3_text swap = keys[k];
          keys[k] = keys[k + 1];
          keys[k + 1] = swap;
        }
      }
    }
    if (round % 100 == 0) {
      memset(seen, 0, sizeof(*seen));
    }
    shard_s3_split_note(seen, NULL, 0, keys[0].bytes, keys[0].length);
    shard_s3_split_note(seen, keys[0].bytes, keys[0].length, keys[1].bytes, keys[1].length);
    struct shard_s3_text middle;
    struct shard_s3_span span = {.at = &keys[1], .seen = seen};
    for (int bounded = 0; bounded < 2; bounded++) {
      bool empty = shard_codec_compare_bytes(keys[1].bytes, keys[1].length, keys[2].bytes,
                                             keys[2].length) == 0;
      span.end = bounded ? &keys[2] : NULL;
      if ((bounded && empty) || !shard_s3_split_between(&span, (round % 9) / 8.0, &middle)) {
        continue;
      }
      found++;
      assert_true(middle.length <= SHARD_S3_KEY_MAX);
      assert_true(is_utf8(middle.bytes, middle.length));
      assert_true(shard_codec_compare_bytes(middle.bytes, middle.length, keys[1].bytes,
                                            keys[1].length) > 0);
      assert_true(!bounded || shard_codec_compare_bytes(middle.bytes, middle.length, keys[2].bytes,
                                                        keys[2].length) < 0);
      assert_true(shard_s3_split_left(&span, &keys[0], 1000) >= 0);
    }
  }
  assert_true(found > 20000);
  free(seen);
}

/* The longest keys there are. */
static void splits_of_long_keys(void **state) {
  (void)state;
  struct shard_s3_seen *seen = calloc(1, sizeof(*seen));
  struct shard_s3_text at = {.length = SHARD_S3_KEY_MAX}, middle;
  memset(at.bytes, 'x', SHARD_S3_KEY_MAX);
  shard_s3_split_note(seen, NULL, 0, at.bytes, at.length);
  struct shard_s3_span span = {.at = &at, .seen = seen};
  assert_true(shard_s3_split_between(&span, 0.5, &middle));
  assert_int_equal(middle.length, SHARD_S3_KEY_MAX);
  span.end = &middle; /* nothing fits between */
  struct shard_s3_text none;
  assert_false(shard_s3_split_between(&span, 0.5, &none));
  free(seen);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(splits_of_numbers),  cmocka_unit_test(splits_in_parts),
      cmocka_unit_test(splits_further),     cmocka_unit_test(folders),
      cmocka_unit_test(splits_lie_between), cmocka_unit_test(splits_of_long_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
