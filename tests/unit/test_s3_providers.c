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
    const char *host, *name, *algorithm, *scope, *prefix;
  } hosts[] = {
      {"storage.googleapis.com", "Google Cloud Storage", google, "storage/auto", "x-goog-"},
      {"storage.googleapis.com:443", "Google Cloud Storage", google, "storage/auto", "x-goog-"},
      {"storage.europe-west3.rep.googleapis.com", "Google Cloud Storage", google, "storage/auto",
       "x-goog-"},
      {"s3.eu-west-1.amazonaws.com", "Amazon S3", aws, "s3/", "x-amz-"},
      {"b.s3.cn-north-1.amazonaws.com.cn:443", "Amazon S3", aws, "s3/", "x-amz-"},
      {"amazonaws.com.example", "S3", aws, "s3/", "x-amz-"},
      {"127.0.0.1:9000", "S3", aws, "s3/", "x-amz-"},
      {"googleapis.com.example", "S3", aws, "s3/", "x-amz-"},
      {"evilgoogleapis.com", "S3", aws, "s3/", "x-amz-"},
      {"", "S3", aws, "s3/", "x-amz-"},
  };
  for (size_t i = 0; i < COUNT(hosts); i++) {
    const struct shard_s3_provider *p = shard_s3_provider_of(hosts[i].host);
    char text[200];
    assert_string_equal(p->name, hosts[i].name);
    assert_string_equal(p->scheme.algorithm, hosts[i].algorithm);
    snprintf(text, sizeof(text), "%s/%s", p->service, p->region ? p->region : "");
    assert_string_equal(text, hosts[i].scope);
    /* One that has x-amz- headers beside x-goog- ones is refused by Google. */
    const char *const names[] = {p->content, p->date, p->token};
    for (size_t k = 0; k < COUNT(names); k++) {
      assert_true(!names[k] || strncmp(names[k], hosts[i].prefix, strlen(hosts[i].prefix)) == 0);
    }
    assert_non_null(p->encrypted[0].name);
  }
}

/* Amazon's hosts in its regions. */
static void homes(void **state) {
  (void)state;
  const struct shard_s3_provider *home = shard_s3_provider_home();
  char host[100];
  shard_s3_provider_host(home, "eu-west-1", host, sizeof(host));
  assert_string_equal(host, "s3.eu-west-1.amazonaws.com");
  shard_s3_provider_host(home, "cn-north-1", host, sizeof(host));
  assert_string_equal(host, "s3.cn-north-1.amazonaws.com.cn");
}

/* Lines of replies' heads. */
static void heads(void **state) {
  (void)state;
  static const struct {
    const char *line;
    enum shard_s3_fact fact;
    const char *value;
  } lines[] = {
      {"X-Amz-Bucket-Region:abc", SHARD_S3_REGION, "abc"},
      {"x-amz-bucket-region:\t 12345678901234567890 \r\n", SHARD_S3_REGION, ""}, /* too long */
      {"x-amz-bucket-region:", SHARD_S3_REGION, ""},
      {"x-amz-bucket-region : abc", SHARD_S3_NO_FACT, NULL},
      {"x-amz-bucket-regionx: abc", SHARD_S3_NO_FACT, NULL},
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
