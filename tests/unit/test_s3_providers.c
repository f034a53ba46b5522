/* SPDX-License-Identifier: MIT */
/*
 * Where servers differ: signatures, hosts, and lines of replies' heads.
 * Links: all of source/s3
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/s3/provider.h"
#include "unit.h"

/* How requests to a host are signed, and what replies say. */
static void providers(void **state) {
  (void)state;
  static const char google[] = "GOOG4-HMAC-SHA256", aws[] = "AWS4-HMAC-SHA256";
  static const struct {
    const char *host, *name, *algorithm, *scope, *prefix, *only_new;
  } hosts[] = {
      {"storage.googleapis.com", "Google Cloud Storage", google, "storage/auto", "x-goog-",
       "x-goog-if-generation-match: 0"},
      {"storage.googleapis.com:443", "Google Cloud Storage", google, "storage/auto", "x-goog-",
       "x-goog-if-generation-match: 0"},
      {"storage.europe-west3.rep.googleapis.com", "Google Cloud Storage", google, "storage/auto",
       "x-goog-", "x-goog-if-generation-match: 0"},
      {"s3.eu-west-1.amazonaws.com", "Amazon S3", aws, "s3/", "x-amz-", "if-none-match: *"},
      {"b.s3.cn-north-1.amazonaws.com.cn:443", "Amazon S3", aws, "s3/", "x-amz-",
       "if-none-match: *"},
      {"amazonaws.com.example", "S3", aws, "s3/", "x-amz-", "if-none-match: *"},
      {"127.0.0.1:9000", "S3", aws, "s3/", "x-amz-", "if-none-match: *"},
      {"googleapis.com.example", "S3", aws, "s3/", "x-amz-", "if-none-match: *"},
      {"evilgoogleapis.com", "S3", aws, "s3/", "x-amz-", "if-none-match: *"},
      {"", "S3", aws, "s3/", "x-amz-", "if-none-match: *"},
  };
  for (size_t i = 0; i < COUNT(hosts); i++) {
    const struct shard_s3_provider *p = shard_s3_provider_of(hosts[i].host);
    char text[200], value[80];
    assert_string_equal(p->name, hosts[i].name);
    assert_string_equal(p->scheme.algorithm, hosts[i].algorithm);
    snprintf(text, sizeof(text), "%s/%s", p->service, p->region ? p->region : "");
    assert_string_equal(text, hosts[i].scope);
    snprintf(text, sizeof(text), "%s: %s", p->only_new.name, p->only_new.value);
    assert_string_equal(text, hosts[i].only_new);
    /* One that has x-amz- headers beside x-goog- ones is refused by Google. */
    const char *const names[] = {p->content, p->date, p->token, p->sha256};
    for (size_t k = 0; k < COUNT(names); k++) {
      assert_true(!names[k] || strncmp(names[k], hosts[i].prefix, strlen(hosts[i].prefix)) == 0);
    }
    snprintf(text, sizeof(text), "%s: abc\r\n", p->sha256);
    assert_int_equal(shard_s3_provider_read(text, strlen(text), value, sizeof(value)),
                     SHARD_S3_SHA256);
    assert_string_equal(value, "abc");
    assert_non_null(p->encrypted[0].name);
  }
}

/* Amazon's hosts in its regions, and which hosts a redirect may name. */
static void homes(void **state) {
  (void)state;
  const struct shard_s3_provider *home = shard_s3_provider_home();
  char host[100];
  shard_s3_provider_host(home, "eu-west-1", host, sizeof(host));
  assert_string_equal(host, "s3.eu-west-1.amazonaws.com");
  shard_s3_provider_host(home, "cn-north-1", host, sizeof(host));
  assert_string_equal(host, "s3.cn-north-1.amazonaws.com.cn");
  assert_true(shard_s3_provider_owns(home, "b.s3.eu-west-1.amazonaws.com"));
  assert_true(shard_s3_provider_owns(home, "S3.CN-NORTH-1.AMAZONAWS.COM.CN"));
  static const char *const others[] = {"",
                                       "amazonaws.com",
                                       ".amazonaws.com",
                                       "evilamazonaws.com",
                                       "amazonaws.com.evil.example",
                                       "s3.amazonaws.com:8080",
                                       "storage.googleapis.com"};
  for (size_t i = 0; i < COUNT(others); i++) {
    assert_false(shard_s3_provider_owns(home, others[i]));
  }
}

/* Lines of replies' heads. */
static void heads(void **state) {
  (void)state;
  static const struct {
    const char *line;
    enum shard_s3_fact fact;
    const char *value;
  } lines[] = {
      {"x-amz-meta-sha256: abc\r\n", SHARD_S3_SHA256, "abc"},
      {"X-Goog-Meta-SHA256:abc", SHARD_S3_SHA256, "abc"},
      {"x-amz-meta-sha256:\t 12345678901234567890 \r\n", SHARD_S3_SHA256, ""}, /* too long */
      {"x-amz-meta-sha256:", SHARD_S3_SHA256, ""},
      {"x-amz-meta-sha256 : abc", SHARD_S3_NO_FACT, NULL},
      {"x-amz-meta-sha256x: abc", SHARD_S3_NO_FACT, NULL},
      {"x-amz-bucket-region: eu-west-1\r\n", SHARD_S3_REGION, "eu-west-1"},
      {"x-amz-server-side-encryption: AES256\r\n", SHARD_S3_NO_FACT, NULL},
      {"x-amz-server-side-encryption: aws:kms\r\n", SHARD_S3_ENCRYPTED, "aws:kms"},
      {"x-amz-server-side-encryption-customer-algorithm: AES256\r\n", SHARD_S3_ENCRYPTED, "AES256"},
      {"x-goog-encryption-kms-key-name: k\r\n", SHARD_S3_ENCRYPTED, "k"},
      {"\r\n", SHARD_S3_NO_FACT, NULL},
      {"", SHARD_S3_NO_FACT, NULL},
  };
  char value[16];
  for (size_t i = 0; i < COUNT(lines); i++) {
    size_t n = strlen(lines[i].line);
    char *alone = malloc(n + 1); /* no NUL behind it */
    memcpy(alone + 1, lines[i].line, n);
    assert_int_equal(shard_s3_provider_read(alone + 1, n, value, sizeof(value)), lines[i].fact);
    if (lines[i].value) {
      assert_string_equal(value, lines[i].value);
    }
    free(alone);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(providers),
      cmocka_unit_test(homes),
      cmocka_unit_test(heads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
