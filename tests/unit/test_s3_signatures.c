/* SPDX-License-Identifier: MIT */
/*
 * Signatures of requests: published ones, and those of lists.
 * Links: all of source/s3
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/s3/provider.h"
#include "source/s3/sigv4.h"
#include "unit.h"

#define TOKEN                                                                                      \
  "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPf"  \
  "IeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7W"  \
  "Z0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8F"  \
  "DrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define UNRESERVED "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static const struct shard_sigv4_scheme aws = SHARD_SIGV4_AWS;

/* The published test suite of Signature Version 4, its requests in canonical form. */
static void signatures(void **state) {
  (void)state;
  static const struct shard_sigv4_key key = {
      "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1", "service", &aws};
  static const struct {
    const char *name, *method, *path, *query;
    struct shard_sigv4_header headers[4]; /* besides host and x-amz-date */
    const char *signature;
  } vectors[] = {
      {"get-vanilla",
       "GET",
       "/",
       "",
       {{0}},
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-query-order-key-case",
       "GET",
       "/",
       "Param1=value1&Param2=value2",
       {{0}},
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-vanilla-query-unreserved",
       "GET",
       "/",
       UNRESERVED "=" UNRESERVED,
       {{0}},
       "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
      {"get-vanilla-utf8-query",
       "GET",
       "/",
       "%E1%88%B4=bar",
       {{0}},
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
      {"get-utf8",
       "GET",
       "/%E1%88%B4",
       "",
       {{0}},
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"get-unreserved",
       "GET",
       "/" UNRESERVED,
       "",
       {{0}},
       "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
      {"get-space",
       "GET",
       "/example%20space/",
       "",
       {{0}},
       "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
      {"get-header-value-trim",
       "GET",
       "/",
       "",
       {{"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}},
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {"post-vanilla",
       "POST",
       "/",
       "",
       {{0}},
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"post-sts-header-before",
       "POST",
       "/",
       "",
       {{"x-amz-security-token", TOKEN}},
       "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
  };
  char date[SHARD_SIGV4_DATE];
  shard_sigv4_date(1440938160, date);
  assert_string_equal(date, "20150830T123600Z");
  for (size_t i = 0; i < COUNT(vectors); i++) {
    struct shard_sigv4_header headers[6] = {{"host", "example.amazonaws.com"}};
    size_t n = 1, k = 0;
    for (; vectors[i].headers[k].name && strcmp(vectors[i].headers[k].name, "x-amz-date") < 0;) {
      headers[n++] = vectors[i].headers[k++];
    }
    headers[n++] = (struct shard_sigv4_header){"x-amz-date", date};
    for (; vectors[i].headers[k].name;) {
      headers[n++] = vectors[i].headers[k++];
    }
    const struct shard_sigv4_request r = {
        vectors[i].method, vectors[i].path, vectors[i].query, headers, n, EMPTY, date};
    char *got = shard_sigv4_sign(&key, &r);
    assert_non_null(got);
    const char *begin = "AWS4-HMAC-SHA256 "
                        "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
                        "SignedHeaders=host;";
    assert_memory_equal(got, begin, strlen(begin));
    if (strcmp(strstr(got, "Signature=") + 10, vectors[i].signature) != 0) {
      fail_msg("%s: %s", vectors[i].name, got);
    }
    free(got);
  }
  char hex[SHARD_SIGV4_HASH];
  shard_sigv4_hash("", 0, hex);
  assert_string_equal(hex, EMPTY);
}

/* Amazon's example of a signed GET of a bucket, with S3's own header (Authorization header docs).
 */
static void signature_of_a_list(void **state) {
  (void)state;
  static const struct shard_sigv4_key key = {
      "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1", "s3", &aws};
  const struct shard_sigv4_header headers[] = {{"host", "examplebucket.s3.amazonaws.com"},
                                               {"x-amz-content-sha256", EMPTY},
                                               {"x-amz-date", "20130524T000000Z"}};
  const struct shard_sigv4_request r = {"GET", "/",   "max-keys=2&prefix=J", headers,
                                        3,     EMPTY, "20130524T000000Z"};
  char *got = shard_sigv4_sign(&key, &r);
  assert_string_equal(got, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
                           "aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
                           "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69d"
                           "c6f7");
  free(got);
}

/* Google's words in the same scheme; the signature is from a program of its own (Python's hmac). */
static void signature_for_google(void **state) {
  (void)state;
  const struct shard_s3_provider *p = shard_s3_provider_of("bucket.storage.googleapis.com");
  const struct shard_sigv4_key key = {"GOOG1EXAMPLE", "secretOfNoValue/+0", p->region, p->service,
                                      &p->scheme};
  const struct shard_sigv4_header headers[] = {{"host", "bucket.storage.googleapis.com"},
                                               {p->content, EMPTY},
                                               {p->date, "20261122T091500Z"},
                                               {"x-goog-if-generation-match", "0"},
                                               {"x-goog-meta-sha256", EMPTY}};
  const struct shard_sigv4_request r = {"PUT", "/a%20b/x.listing", "", headers, COUNT(headers),
                                        EMPTY, "20261122T091500Z"};
  char *got = shard_sigv4_sign(&key, &r);
  assert_string_equal(got, "GOOG4-HMAC-SHA256 Credential=GOOG1EXAMPLE/20261122/auto/storage/"
                           "goog4_request, SignedHeaders=host;x-goog-content-sha256;x-goog-date;"
                           "x-goog-if-generation-match;x-goog-meta-sha256, Signature="
                           "ac4af4b181e1a6f04170acc50487a4d00b0949cbe2995517da7b4a54bbe623c7");
  free(got);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(signatures),
      cmocka_unit_test(signature_of_a_list),
      cmocka_unit_test(signature_for_google),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
