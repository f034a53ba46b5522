/* SPDX-License-Identifier: MIT */
/*
 * The words that say what a listing contains.
 * Links: listing/options
 */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "listing/codec.h"
#include "listing/options.h"
#include "unit.h"

static struct shard_options parse(const char *text) {
  struct shard_options o;
  char err[256] = "";
  if (shard_options_parse(&o, text, err, sizeof(err)) != 0) {
    fail_msg("'%s': %s", text, err);
  }
  return o;
}

static void same(const struct shard_options *a, const struct shard_options *b) {
  assert_int_equal(a->order, b->order);
  assert_int_equal(a->depth, b->depth);
  assert_int_equal(a->exact, b->exact);
  assert_int_equal(a->hidden, b->hidden);
  assert_int_equal(a->follow, b->follow);
  assert_string_equal(a->include, b->include);
}

static void defaults(void **state) {
  (void)state;
  static const char *const empty[] = {"", " ", "\t \t"};
  for (size_t i = 0; i < COUNT(empty); i++) {
    struct shard_options o = parse(empty[i]);
    assert_int_equal(o.order, SHARD_ORDER_PATH);
    assert_int_equal(o.depth, 0);
    assert_int_equal(o.exact, 0);
    assert_true(o.hidden);
    assert_false(o.follow);
    assert_string_equal(o.include, "");
  }
}

static void words(void **state) {
  (void)state;
  struct shard_options o =
      parse(" follow=1\tdepth=3 exact=2  hidden=0 order=basename include=*.jpeg:a%20b%25%ff ");
  assert_int_equal(o.order, SHARD_ORDER_BASENAME);
  assert_int_equal(o.depth, 3);
  assert_int_equal(o.exact, 2);
  assert_false(o.hidden);
  assert_true(o.follow);
  assert_string_equal(o.include, "*.jpeg:a b%\xff");
  assert_int_equal(parse("depth=1 depth=2").depth, 2); /* the last counts */
}

static void round_trip(void **state) {
  (void)state;
  static const char *const all[] = {
      "",
      "order=basename",
      "depth=7 exact=7 hidden=0 follow=1 include=*.npz:img_[0-9]*:x%09y",
      "depth=1048576",
      "include=%25%20%09%0a:\xff\x80",
  };
  for (size_t i = 0; i < COUNT(all); i++) {
    struct shard_options a = parse(all[i]), b;
    char text[SHARD_OPTIONS_TEXT], again[SHARD_OPTIONS_TEXT];
    shard_options_format(&a, text, sizeof(text));
    b = parse(text);
    same(&a, &b);
    shard_options_format(&b, again, sizeof(again));
    assert_string_equal(text, again);
  }
}

/* The longest pattern, of bytes that are written with three: must come back, or be refused. */
static void longest_include(void **state) {
  (void)state;
  static const char bytes[] = "x% ";
  for (size_t k = 0; k < sizeof(bytes) - 1; k++) {
    struct shard_options a = parse(""), b;
    memset(a.include, bytes[k], sizeof(a.include) - 1);
    char text[SHARD_OPTIONS_TEXT], err[128];
    shard_options_format(&a, text, sizeof(text));
    if (shard_options_parse(&b, text, err, sizeof(err)) == 0) {
      same(&a, &b);
    }
  }
}

static void errors(void **state) {
  (void)state;
  static const char *const bad[] = {
      "order",
      "order=",
      "order=size",
      "order=PATH",
      "depth=",
      "depth=-1",
      "depth=+1",
      "depth=x",
      "depth=1x",
      "depth=1048577",
      "depth=99999999999999999999",
      "exact=a",
      "hidden=2",
      "hidden=",
      "hidden=yes",
      "follow=-0",
      "include=%",
      "include=%0",
      "include=%zz",
      "include=%00",
      "colour=red",
      "=1",
      "Order=path",
      "depth =1",
  };
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct shard_options o;
    char text[128], err[256] = "";
    snprintf(text, sizeof(text), "hidden=1 %s", bad[i]);
    if (shard_options_parse(&o, text, err, sizeof(err)) != -EINVAL) {
      fail_msg("'%s' was taken", bad[i]);
    }
    char first[64];
    snprintf(first, sizeof(first), "'%.*s'", (int)strcspn(bad[i], " "), bad[i]);
    if (!strstr(err, first)) {
      fail_msg("'%s' is not named: %s", bad[i], err);
    }
  }
  struct shard_options o;
  char err[256] = "";
  assert_int_equal(shard_options_parse(&o, "follow=1", err, sizeof(err)), -EINVAL);
  assert_non_null(strstr(err, "follow=1"));
  char text[1100] = "include=";
  memset(text + 8, 'x', 1024);
  assert_int_equal(shard_options_parse(&o, text, err, sizeof(err)), -EINVAL);
  text[8 + 1023] = 0;
  assert_int_equal(shard_options_parse(&o, text, err, sizeof(err)), 0);
  char tiny[8];
  assert_int_equal(shard_options_parse(&o, "x", tiny, sizeof(tiny)), -EINVAL);
  assert_int_equal(strlen(tiny), 7);
}

static const struct {
  const char *include, *name;
  int match;
} matches[] = {
    {"", "anything", 1},
    {"*", "anything", 1},
    {"*.jpeg", "a.jpeg", 1},
    {"*.jpeg", ".jpeg", 1},
    {"*.jpeg", "jpeg", 0},
    {"*.jpeg", "a.jpeg.bak", 0},
    {"*.jpeg", "a.jpe", 0},
    {"*.a:*.b", "x.b", 1},
    {"*.a:*.b", "x.c", 0},
    {"a?c", "abc", 1},
    {"a?c", "ac", 0},
    {"[ab]*", "b1", 1},
    {"[ab]*", "c1", 0},
    {"*a*b", "xaxb", 1},
    {"*a*b", "xaxbx", 0},
    {"*\\*", "a*", 1},
    {"*\\*", "ab", 0},
    {"x:", "x", 1},
    {":x", "x", 1},
    {"x", "xx", 0},
    {"*.jpeg", ".hidden.jpeg", 1},
    {"*[.]tar", "x.tar", 1},
    {"*[!0-9]", "a1", 0},
    {"**", "", 1},
    {"[[:digit:]]*", "1a", 1},
    {"[[:digit:]]*", "a1", 0},
    {"[[:digit:]]*", "digit", 0},
    {"[[:digit:]]:*.b", "x.b", 1},
    {"*.a:x[[:alpha:][:digit:]]z:*.b", "x7z", 1},
    {"*.a:x[[:alpha:][:digit:]]z:*.b", "x.b", 1},
    {"*.a:x[[:alpha:][:digit:]]z:*.b", "x-z", 0},
    {"[:x", "x", 1},
    {"[:x:]", "x", 1},
    {"[:", "[", 1},
};

static void match(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(matches); i++) {
    struct shard_options o = {.hidden = true};
    strcpy(o.include, matches[i].include);
    if (shard_options_match(&o, matches[i].name, strlen(matches[i].name)) != matches[i].match) {
      fail_msg("'%s' and '%s'", matches[i].include, matches[i].name);
    }
  }
}

/*
 * shardctl decides in the "C" locale which names are in a listing, the host in its own which names
 * it looks for there: they must agree, or a name is nobody's.
 */
static void match_in_every_locale(void **state) {
  (void)state;
  static const char *const patterns[] = {"img?.jpg", "img??.jpg", "[[:alpha:]]*", "*[!a]", "[a-z]",
                                         "*.jpg",    "?"};
  static const char *const names[] = {"img\xc3\xa9.jpg", "img\xff.jpg", "\xc3\xa9", "\xff", "B",
                                      "a\xc3",           "img1.jpg"};
  bool in_c[COUNT(patterns)][COUNT(names)];
  static const char *const locales[] = {"C", "C.UTF-8", "en_US.UTF-8"};
  for (size_t l = 0; l < COUNT(locales); l++) {
    if (!setlocale(LC_ALL, locales[l])) {
      continue;
    }
    for (size_t p = 0; p < COUNT(patterns); p++) {
      for (size_t n = 0; n < COUNT(names); n++) {
        struct shard_options o = {.hidden = true};
        strcpy(o.include, patterns[p]);
        bool found = shard_options_match(&o, names[n], strlen(names[n]));
        if (l == 0) {
          in_c[p][n] = found;
        } else if (found != in_c[p][n]) {
          fail_msg("'%s' and name %zu: %d in C, %d in %s", patterns[p], n, in_c[p][n], found,
                   locales[l]);
        }
      }
    }
  }
  setlocale(LC_ALL, "C");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults),
      cmocka_unit_test(words),
      cmocka_unit_test(round_trip),
      cmocka_unit_test(longest_include),
      cmocka_unit_test(errors),
      cmocka_unit_test(match),
      cmocka_unit_test(match_in_every_locale),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
