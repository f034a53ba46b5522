/* SPDX-License-Identifier: MIT */
/* A server's answer: lines of its head up to an empty one, then the body of an error. */
#include "source/s3/answer.h"
#include "fuzz.h"

#define SECRET "wJalrXUtnFEMI"

static void judge(const struct shard_s3_answer *answer, const struct shard_s3_request *request) {
  const struct shard_s3_asked asked = {request, "h.example", "us-east-1", SECRET};
  struct shard_s3_verdict v;
  memset(&v, 0, sizeof(v));
  shard_s3_answer_judge(answer, &asked, &v);
  RULE(memchr(v.why, 0, sizeof(v.why)) && !strstr(v.why, SECRET));
  for (const char *c = v.why; *c; c++) {
    RULE(*c != '\n' && *c != 27); /* it is one line, and does nothing to a terminal */
  }
  RULE(v.meaning != SHARD_S3_WHOLE || (answer->status >= 200 && answer->status < 300));
  RULE(v.meaning != SHARD_S3_REFUSED || (v.rc < 0 && v.why[0]));
}

static void fuzz(const char *data, size_t size) {
  struct shard_s3_answer answer = {.in_head = false};
  const char *at = data, *end = data + size;
  while (at < end && *at != '\n' && *at != '\r') {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    stop = stop ? stop + 1 : end;
    size_t length = (size_t)(stop - at);
    char *line = malloc(length);
    RULE(line);
    memcpy(line, at, length);
    shard_s3_answer_read_line(&answer, line, length);
    free(line);
    at = stop;
  }
  RULE(memchr(answer.region, 0, sizeof(answer.region)) &&
       memchr(answer.location, 0, sizeof(answer.location)));
  if (at < end) {
    shard_s3_answer_keep(&answer, at, (size_t)(end - at));
  }
  const struct shard_s3_request requests[] = {{.key = NULL}, {.key = "k"}};
  for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
    judge(&answer, &requests[i]);
  }
  shard_s3_answer_clear(&answer);
}
