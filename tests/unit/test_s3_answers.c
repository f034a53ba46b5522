/* SPDX-License-Identifier: MIT */
/*
 * What replies mean, and what people are told of those that fail.
 * Links: all of source/s3
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/s3/answer.h"
#include "source/s3/s3.h"
#include "unit.h"

/* Read a head, each line where no NUL follows it. The last line's kind. */
static enum shard_s3_line read_head(struct shard_s3_answer *answer, const char *text) {
  enum shard_s3_line kind = SHARD_S3_NOT_HEAD;
  while (*text) {
    size_t n = strcspn(text, "\n") + 1;
    char *alone = malloc(n);
    assert_non_null(alone);
    memcpy(alone, text, n);
    kind = shard_s3_answer_read_line(answer, alone, n);
    free(alone);
    text += n;
  }
  return kind;
}

static void answers_heads(void **state) {
  (void)state;
  struct shard_s3_answer a = {0};
  assert_int_equal(read_head(&a, "x: y\r\n"), SHARD_S3_NOT_HEAD);
  assert_int_equal(read_head(&a, "HTTP/1.1 100 Continue\r\n"), SHARD_S3_HEAD_BEGINS);
  assert_int_equal(a.status, 100);
  assert_int_equal(read_head(&a, "x-amz-bucket-region: other\r\nLocation: /x\r\n\r\n"),
                   SHARD_S3_HEAD_LINE);
  assert_string_equal(a.region, "other");
  assert_string_equal(a.location, "/x");
  shard_s3_answer_keep(&a, "<Error>", 7);
  /* What one head says is not of the next, and what comes behind the body is of none. */
  assert_int_equal(read_head(&a, "HTTP/2 307 \r\n"), SHARD_S3_HEAD_BEGINS);
  assert_int_equal(a.status, 307);
  assert_string_equal(a.region, "");
  assert_string_equal(a.location, "");
  assert_null(a.body);
  assert_int_equal(read_head(&a, "x-amz-bucket-region:eu-west-1\r\n"
                                 "location:\t https://h/p?q \r\n\r\n"),
                   SHARD_S3_HEAD_LINE);
  assert_string_equal(a.region, "eu-west-1");
  assert_string_equal(a.location, "https://h/p?q");
  assert_int_equal(read_head(&a, "location: /y\r\n"), SHARD_S3_NOT_HEAD);
  assert_string_equal(a.location, "https://h/p?q");
  /* What does not fit, or is no status, is not told. */
  char line[3000];
  snprintf(line, sizeof(line), "HTTP/1.0  404\nlocation: https://%02000d\n", 0);
  read_head(&a, line);
  assert_int_equal(a.status, 404);
  assert_string_equal(a.location, "");
  static const char *const odd[] = {"HTTP/\r\n", "HTTP/1.1\r\n", "HTTP/1.1 \r\n", "HTTP/1.1 20\n",
                                    "HTTP/1.1 x00 OK\r\n"};
  for (size_t i = 0; i < COUNT(odd); i++) {
    assert_int_equal(read_head(&a, odd[i]), SHARD_S3_HEAD_BEGINS);
    assert_int_equal(a.status, 0);
  }
  /* Of a body the beginning is kept, in whatever pieces it comes. */
  memset(line, 'x', sizeof(line));
  for (size_t i = 0; i < 20; i++) {
    shard_s3_answer_keep(&a, line, i * 100);
  }
  assert_in_range(a.body_size, 10000, 20000);
  shard_s3_answer_clear(&a);
  assert_null(a.body);
}

#define ERROR(code) "<Error><Code>" code "</Code><Message>no way</Message></Error>"

/* What an answer means, by its status, its body and what was asked. */
static void answers_meanings(void **state) {
  (void)state;
  static const struct shard_s3_request list, get = {.key = "k"};
  static const struct {
    long status;
    const char *body;
    const struct shard_s3_request *request;
    enum shard_s3_meaning meaning;
    int rc;
    const char *why;
  } cases[] = {
      {200, "", &list, SHARD_S3_WHOLE, 0, NULL},
      {404, ERROR("NoSuchBucket"), &get, SHARD_S3_REFUSED, -ENOENT, "no such bucket"},
      {404, ERROR("NoSuchKey"), &get, SHARD_S3_REFUSED, -ENOENT, "no such object"},
      {404, "", &get, SHARD_S3_REFUSED, -ENOENT, "HTTP 404"},
      {304, "", &get, SHARD_S3_REFUSED, -EREMOTE, "redirects"},
      {429, "", &list, SHARD_S3_SLOWER, 0, "HTTP 429"},
      {503, ERROR("SlowDown"), &list, SHARD_S3_SLOWER, 0, "HTTP 503 SlowDown"},
      {400, ERROR("SlowDown"), &list, SHARD_S3_SLOWER, 0, "HTTP 400 SlowDown"},
      {500, "<html>", &list, SHARD_S3_LATER, 0, "HTTP 500"},
      {599, "", &list, SHARD_S3_LATER, 0, "HTTP 599"},
      {408, "", &list, SHARD_S3_LATER, 0, "HTTP 408"},
      {400, ERROR("RequestTimeout"), &get, SHARD_S3_LATER, 0, "HTTP 400 RequestTimeout"},
      {501, ERROR("NotImplemented"), &list, SHARD_S3_REFUSED, -EIO, "HTTP 501 NotImplemented: no"},
      {505, "", &list, SHARD_S3_REFUSED, -EIO, "HTTP 505"},
      {511, "", &list, SHARD_S3_REFUSED, -EIO, "HTTP 511"},
      {403, ERROR("RequestTimeTooSkewed"), &list, SHARD_S3_REFUSED, -EACCES, "clock"},
      {301, "", &list, SHARD_S3_REFUSED, -EREMOTE, "h redirects to 'another place', which"},
      {307, "<Error><Endpoint>b.h2</Endpoint></Error>", &list, SHARD_S3_REFUSED, -EREMOTE,
       "to 'b.h2'"},
      {301, "<Error><Region>r2</Region></Error>", &list, SHARD_S3_REGION_WRONG, -EREMOTE,
       "redirects"},
      {400, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>r2</Region></Error>", &list,
       SHARD_S3_REGION_WRONG, -EIO, "AuthorizationHeaderMalformed"},
      {400, "<Error><Region>r1</Region></Error>", &list, SHARD_S3_REFUSED, -EIO, "HTTP 400"},
      {400, "<Error><Region>a/b</Region></Error>", &list, SHARD_S3_REFUSED, -EIO, "HTTP 400"},
      {403, ERROR("AccessDenied"), &list, SHARD_S3_REFUSED, -EACCES, "s3:ListBucket"},
      {403, ERROR("AccessDenied"), &get, SHARD_S3_REFUSED, -EACCES, "s3:GetObject"},
      {403, ERROR("SignatureDoesNotMatch"), &get, SHARD_S3_REFUSED, -EACCES,
       "AWS_SECRET_ACCESS_KEY"},
      {403, "", &list, SHARD_S3_REFUSED, -EACCES, "HTTP 403"},
      {401, "", &list, SHARD_S3_REFUSED, -EACCES, "HTTP 401"},
      {407, "", &list, SHARD_S3_REFUSED, -EACCES, "proxy"},
      {204, "", &list, SHARD_S3_REFUSED, -EIO, "HTTP 204"},
      {418, "<Error><Code>T</Code><Message>token SECRET!</Message></Error>", &list,
       SHARD_S3_REFUSED, -EIO, "h says HTTP 418 T"},
      {418, "<Error><Code>SECRET!</Code><Message>m</Message></Error>", &list, SHARD_S3_REFUSED,
       -EIO, "h says HTTP 418"},
      {400, "<Error><Code>T</Code><Region>SECRET!</Region><Message>m</Message></Error>", &list,
       SHARD_S3_REFUSED, -EIO, "h says HTTP 400"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct shard_s3_answer a = {.status = cases[i].status};
    struct shard_s3_verdict v;
    const struct shard_s3_asked asked = {
        .request = cases[i].request, .host = "h", .region = "r1", .secret = "SECRET"};
    shard_s3_answer_keep(&a, cases[i].body, strlen(cases[i].body));
    shard_s3_answer_judge(&a, &asked, &v);
    if (v.meaning != cases[i].meaning || (cases[i].why && !strstr(v.why, cases[i].why))) {
      fail_msg("answer %zu (HTTP %ld) means %d: %s", i, cases[i].status, v.meaning, v.why);
    }
    assert_int_equal(v.rc, cases[i].rc);
    assert_string_equal(v.region, v.meaning == SHARD_S3_REGION_WRONG ? "r2" : v.region);
    assert_null(strstr(v.why, "SECRET!"));
    shard_s3_answer_clear(&a);
  }
}

/* A session token is longer than what is kept of a message. */
static void answers_long_secret(void **state) {
  (void)state;
  uint64_t random = 20;
  char token[400], body[600];
  for (size_t i = 0; i < sizeof(token) - 1; i++) {
    token[i] = (char)('a' + unit_random(&random) % 26);
  }
  token[sizeof(token) - 1] = 0;
  const struct shard_s3_request list = {.key = NULL};
  const struct shard_s3_asked asked = {
      .request = &list, .host = "h", .region = "r1", .secret = token};
  struct shard_s3_answer a = {.status = 400};
  struct shard_s3_verdict v;
  int n = snprintf(body, sizeof(body),
                   "<Error><Code>T</Code><Message>bad token %s</Message></Error>", token);
  shard_s3_answer_keep(&a, body, (size_t)n);
  shard_s3_answer_judge(&a, &asked, &v);
  shard_s3_answer_clear(&a);
  token[20] = 0;
  assert_null(strstr(v.why, token));
  assert_non_null(strstr(v.why, "HTTP 400 T"));
}

static void faults(void **state) {
  (void)state;
  const char *text =
      "<?xml version='1.0'?><Error><Code>AuthorizationHeaderMalformed</Code><Message>"
      "the region\n'x' is wrong</Message><Region>eu-west-1</Region></Error>";
  struct shard_s3_fault f;
  shard_s3_fault_parse(&f, text, strlen(text));
  assert_string_equal(f.code, "AuthorizationHeaderMalformed");
  assert_string_equal(f.message, "the region 'x' is wrong");
  assert_string_equal(f.region, "eu-west-1");
  assert_string_equal(f.endpoint, "");
  shard_s3_fault_parse(&f, "<html><bo", 9);
  assert_string_equal(f.code, "");
  text = "<!DOCTYPE Error [<!ENTITY a \"ha\">]><Error><Code>&a;</Code></Error>";
  shard_s3_fault_parse(&f, text, strlen(text));
  assert_string_equal(f.code, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_heads),
      cmocka_unit_test(answers_meanings),
      cmocka_unit_test(answers_long_secret),
      cmocka_unit_test(faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
