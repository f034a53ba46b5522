/* SPDX-License-Identifier: MIT */
/*
 * URLs of buckets, percent-encoding, endpoints, and how a bucket is addressed.
 * Links: all of source/s3
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "source/s3/s3.h"
#include "unit.h"

static void urls(void **state) {
  (void)state;
  static const struct {
    const char *text, *bucket, *prefix;
    size_t root;
  } good[] = {{"s3://b", "b", "", 0},
              {"s3://b/", "b", "", 0},
              {"s3://bucket/p", "bucket", "p", 0},
              {"s3://bucket/p/", "bucket", "p/", 2},
              {"s3://bucket/a/b/im", "bucket", "a/b/im", 4},
              {"s3://bucket//x", "bucket", "/x", 1},
              {"s3://bucket/a//", "bucket", "a//", 3},
              {"s3://my.bucket-1/a b%20+?#", "my.bucket-1", "a b%20+?#", 0}};
  struct shard_s3_url u;
  char err[300];
  for (size_t i = 0; i < COUNT(good); i++) {
    assert_int_equal(shard_s3_url_parse(good[i].text, &u, err, sizeof(err)), 0);
    assert_string_equal(u.bucket, good[i].bucket);
    assert_string_equal(u.prefix, good[i].prefix);
    assert_int_equal(u.root, good[i].root);
  }
  static const char *const bad[] = {"s3:/b",      "s3://",      "s3:///p", "b/p",
                                    "s3://b c/p", "s3://b@h/p", "s3://-b", "s3://b:9/p"};
  for (size_t i = 0; i < COUNT(bad); i++) {
    assert_int_equal(shard_s3_url_parse(bad[i], &u, err, sizeof(err)), -EINVAL);
    assert_non_null(strstr(err, bad[i]));
  }
  char longest[1200] = "s3://b/";
  memset(longest + 7, 'x', SHARD_S3_KEY_MAX);
  assert_int_equal(shard_s3_url_parse(longest, &u, err, sizeof(err)), 0);
  longest[7 + SHARD_S3_KEY_MAX] = 'x';
  assert_int_equal(shard_s3_url_parse(longest, &u, err, sizeof(err)), -EINVAL);
}

static __attribute__((noinline)) char *escape(const char *text, size_t n, bool keep_slash) {
  char *out = NULL;
  size_t size;
  FILE *f = open_memstream(&out, &size);
  shard_s3_url_escape(f, text, n, keep_slash);
  fclose(f);
  return out;
}

static void escapes(void **state) {
  (void)state;
  char all[255], *text;
  for (int i = 0; i < 255; i++) {
    all[i] = (char)(i + 1);
  }
  text = escape(all, 255, false);
  assert_int_equal(shard_hex_unescape(text, strlen(text), true), 255);
  assert_memory_equal(text, all, 255);
  free(text);
  text = escape("a b/c+d~e%\xc3\xa9", 12, false);
  assert_string_equal(text, "a%20b%2Fc%2Bd~e%25%C3%A9");
  free(text);
  text = escape("a b/c", 5, true);
  assert_string_equal(text, "a%20b/c");
  free(text);
  char both[] = "a+b%20c%2Bd%2fe";
  assert_int_equal(shard_hex_unescape(both, strlen(both), true), 9);
  assert_memory_equal(both, "a b c+d/e", 9);
  static const char *const bad[] = {"%", "a%2", "%zz", "%2", "%-1"};
  for (size_t i = 0; i < COUNT(bad); i++) {
    char copy[8];
    strcpy(copy, bad[i]);
    assert_int_equal(shard_hex_unescape(copy, strlen(copy), true), -1);
  }
}

static void endpoints(void **state) {
  (void)state;
  static const struct {
    const char *text, *host, *path;
    bool tls;
  } good[] = {{"http://127.0.0.1:9000", "127.0.0.1:9000", "", false},
              {"https://S3.Example.org/", "s3.example.org", "", true},
              {"https://h:443", "h", "", true},
              {"http://h:80/a/b//", "h", "/a/b", false},
              {"http://h:443", "h:443", "", false},
              {"http://[::1]:80", "[::1]", "", false}};
  struct shard_s3_endpoint e;
  for (size_t i = 0; i < COUNT(good); i++) {
    assert_int_equal(shard_s3_url_parse_endpoint(good[i].text, &e), 0);
    assert_string_equal(e.host, good[i].host);
    assert_string_equal(e.path, good[i].path);
    assert_int_equal(e.tls, good[i].tls);
  }
  static const char *const bad[] = {"h",          "ftp://h",         "http://",
                                    "http:///x",  "http://u:p@h",    "http://h?x",
                                    "http://h x", "http://h\r\nX: y"};
  for (size_t i = 0; i < COUNT(bad); i++) {
    assert_int_equal(shard_s3_url_parse_endpoint(bad[i], &e), -EINVAL);
  }
}

static void addressing(void **state) {
  (void)state;
  static const struct {
    const char *endpoint, *bucket;
    bool virtual;
  } automatic[] = {{"https://s3.eu-west-1.amazonaws.com", "bucket", true},
                   {"https://s3.eu-west-1.amazonaws.com", "buck.et", false},
                   {"http://s3.example.org", "buck.et", true},
                   {"http://s3.example.org:8080", "bucket", true},
                   {"http://localhost:8080", "bucket", true},
                   {"http://127.0.0.1:8080", "bucket", false},
                   {"http://[::1]:8080", "bucket", false},
                   {"https://s3.example.org", "Bucket", false},
                   {"https://s3.example.org", "my_bucket", false},
                   {"https://s3.example.org", "ab", false}};
  struct shard_s3_endpoint e;
  for (size_t i = 0; i < COUNT(automatic); i++) {
    assert_int_equal(shard_s3_url_parse_endpoint(automatic[i].endpoint, &e), 0);
    assert_int_equal(shard_s3_url_is_virtual(&e, automatic[i].bucket, SHARD_S3_AUTO),
                     automatic[i].virtual);
    assert_true(shard_s3_url_is_virtual(&e, automatic[i].bucket, SHARD_S3_VIRTUAL));
    assert_false(shard_s3_url_is_virtual(&e, automatic[i].bucket, SHARD_S3_PATH));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(urls),
      cmocka_unit_test(escapes),
      cmocka_unit_test(endpoints),
      cmocka_unit_test(addressing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
