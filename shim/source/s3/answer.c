/* SPDX-License-Identifier: MIT */
#include "source/s3/answer.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "source/s3/provider.h"

#define BODY_MOST 16384 /* bytes kept of an error's reply */

void shard_s3_answer_clear(struct shard_s3_answer *answer) {
  free(answer->body);
  *answer = (struct shard_s3_answer){0};
}

/* ---- what comes --------------------------------------------------------- */

/* "HTTP/1.1 200 OK", "HTTP/2 200". 0: it tells no status. */
static long read_status(const char *line, size_t n) {
  const char *at = memchr(line, ' ', n), *end = line + n;
  while (at && at < end && *at == ' ') {
    at++;
  }
  if (!at || end - at < 3) {
    return 0;
  }
  long status = 0;
  for (int i = 0; i < 3; i++) {
    if (at[i] < '0' || at[i] > '9') {
      return 0;
    }
    status = 10 * status + (at[i] - '0');
  }
  return status;
}

enum shard_s3_line shard_s3_answer_read_line(struct shard_s3_answer *a, const char *line,
                                             size_t n) {
  char value[sizeof(a->region)];
  if (n > 5 && strncasecmp(line, "HTTP/", 5) == 0) {
    shard_s3_answer_clear(a);
    a->status = read_status(line, n);
    a->in_head = true;
    return SHARD_S3_HEAD_BEGINS;
  }
  if (!a->in_head) {
    return SHARD_S3_NOT_HEAD;
  }
  if (n == 0 || *line == '\r' || *line == '\n') {
    a->in_head = false;
  } else if (shard_s3_head_value(line, n, "date", value, sizeof(value))) {
    time_t date = curl_getdate(value, NULL);
    a->date = date > 0 ? date : 0;
  } else if (!shard_s3_head_value(line, n, "location", a->location, sizeof(a->location)) &&
             shard_s3_provider_read(line, n, value, sizeof(value)) == SHARD_S3_REGION) {
    memcpy(a->region, value, sizeof(value));
  }
  return SHARD_S3_HEAD_LINE;
}

void shard_s3_answer_keep(struct shard_s3_answer *a, const char *data, size_t size) {
  if (!a->body) {
    a->body = malloc(BODY_MOST);
    a->body_size = 0;
  }
  if (a->body) {
    size = size < BODY_MOST - a->body_size ? size : BODY_MOST - a->body_size;
    memcpy(a->body + a->body_size, data, size);
    a->body_size += size;
  }
}

/* ---- what it means ------------------------------------------------------ */

/* Whether the status is all that the request wants to know. */
static bool is_status_wanted(long status, const struct shard_s3_request *r,
                             const struct shard_s3_fault *fault) {
  if (!r->wants_status) {
    return false;
  }
  return (status == 412 && r->body) ||
         (status == 404 && !r->body && strcmp(fault->code, "NoSuchBucket") != 0);
}

/* Whether an error of the server's stays: not implemented, no such version, a hotel's net. */
static bool is_lasting(long status) { return status == 501 || status == 505 || status == 511; }

static const struct refusal {
  const char *code, *text; /* NULL: name_permission() */
  int rc;
} refusals[] = {
    {"SignatureDoesNotMatch",
     "the secret access key is wrong (AWS_SECRET_ACCESS_KEY, or the profile's)", -EACCES},
    {"InvalidAccessKeyId",
     "the access key ID is not known there (AWS_ACCESS_KEY_ID, or the profile's; "
     "AWS_ENDPOINT_URL_S3 says where)",
     -EACCES},
    {"ExpiredToken", "the session token has expired: get new credentials", -EACCES},
    {"InvalidSecurity", "the access key ID or the secret is not valid there", -EACCES},
    {"InvalidToken", "the session token is not valid (AWS_SESSION_TOKEN)", -EACCES},
    {"AccessDenied", NULL, -EACCES},
    {"NoSuchBucket", "there is no such bucket", -ENOENT},
    {"NoSuchKey", "there is no such object", -ENOENT},
    {"PreconditionFailed", "the object is there already", -EEXIST},
    {"EntityTooLarge", "it is too large for one request", -EFBIG},
    {"InvalidBucketName", "this is no name of a bucket", -EINVAL},
    {"RequestTimeTooSkewed", "this host's clock is wrong, or the server's", -EACCES},
};

static const char *name_permission(const struct shard_s3_request *r) {
  return !r->key   ? "no permission to list it (s3:ListBucket)"
         : r->body ? "no permission to write it (s3:PutObject)"
                   : "no permission to read it (s3:GetObject), or there is none";
}

/* A refusal, for people. */
static void explain_refusal(const struct shard_s3_asked *asked, long status,
                            struct shard_s3_verdict *v) {
  const struct shard_s3_fault *fault = &v->fault;
  for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
    if (strcmp(fault->code, refusals[i].code) == 0) {
      v->rc = refusals[i].rc;
      snprintf(v->why, sizeof(v->why), "%s says %s: %s", asked->host, fault->code,
               refusals[i].text ? refusals[i].text : name_permission(asked->request));
      return;
    }
  }
  if (status == 407) {
    v->rc = -EACCES;
    snprintf(v->why, sizeof(v->why),
             "the proxy (http_proxy) says HTTP 407: it wants a user and a password");
    return;
  }
  v->rc = status == 404 ? -ENOENT : status == 403 || status == 401 ? -EACCES : -EIO;
  snprintf(v->why, sizeof(v->why), "%s says HTTP %ld%s%s%s%s", asked->host, status,
           fault->code[0] ? " " : "", fault->code, fault->message[0] ? ": " : "", fault->message);
}

static enum shard_s3_meaning find_meaning(const struct shard_s3_answer *a,
                                          const struct shard_s3_asked *asked,
                                          const struct shard_s3_fault *fault) {
  const char *code = fault->code;
  if (is_status_wanted(a->status, asked->request, fault)) {
    return SHARD_S3_STATUS;
  }
  if (a->status == 429 || a->status == 503 || strcmp(code, "SlowDown") == 0) {
    return SHARD_S3_SLOWER;
  }
  if ((a->status >= 500 && !is_lasting(a->status)) || a->status == 408 ||
      strcmp(code, "RequestTimeout") == 0 ||
      strcmp(code, "ConditionalRequestConflict") == 0) { /* two put it at a time */
    return SHARD_S3_LATER;
  }
  if (strcmp(code, "RequestTimeTooSkewed") == 0) {
    return a->date != 0 ? SHARD_S3_CLOCK : SHARD_S3_REFUSED;
  }
  if (a->status >= 300 && a->status < 400) {
    return SHARD_S3_MOVED;
  }
  /* AuthorizationHeaderMalformed tells the right region. */
  if (a->status == 400 && shard_s3_account_is_region(fault->region) &&
      strcmp(fault->region, asked->region) != 0) {
    return SHARD_S3_RESIGN;
  }
  return SHARD_S3_REFUSED;
}

#define SECRET_PART 12 /* so many bytes of a secret are one */

/* Empty a text in which the server says back a secret that it was told, or what fits of it. */
static void hide(char *text, const char *secret) {
  size_t length = strlen(text), part = strlen(secret);
  part = part < SECRET_PART ? part : SECRET_PART;
  for (size_t i = 0; part > 0 && i + part <= length; i++) {
    if (memmem(secret, strlen(secret), text + i, part)) {
      text[0] = 0;
      return;
    }
  }
}

void shard_s3_answer_judge(const struct shard_s3_answer *a, const struct shard_s3_asked *asked,
                           struct shard_s3_verdict *v) {
  *v = (struct shard_s3_verdict){.meaning = SHARD_S3_WHOLE};
  if (a->status == 200) {
    return;
  }
  struct shard_s3_fault *fault = &v->fault;
  shard_s3_fault_parse(fault, a->body ? a->body : "", a->body ? a->body_size : 0);
  if (asked->secret) {
    hide(fault->code, asked->secret);
    hide(fault->message, asked->secret);
    hide(fault->region, asked->secret);
    hide(fault->endpoint, asked->secret);
  }
  v->meaning = find_meaning(a, asked, fault);
  if (v->meaning == SHARD_S3_LATER || v->meaning == SHARD_S3_SLOWER) {
    snprintf(v->why, sizeof(v->why), "HTTP %ld%s%s", a->status, fault->code[0] ? " " : "",
             fault->code);
  } else if (v->meaning != SHARD_S3_STATUS) {
    explain_refusal(asked, a->status, v);
  }
}

enum shard_s3_target shard_s3_answer_target(const struct shard_s3_answer *a, bool tls,
                                            const char *host, struct shard_s3_endpoint *to) {
  char url[sizeof(a->location)];
  size_t n = strcspn(a->location, "?");
  *to = (struct shard_s3_endpoint){0};
  if (a->location[0] == '/' && a->location[1] != '/') {
    return SHARD_S3_HERE;
  }
  memcpy(url, a->location, n);
  url[n] = 0;
  if (shard_s3_url_parse_endpoint(url, to) != 0) {
    return SHARD_S3_NOWHERE;
  }
  return to->tls == tls && strcasecmp(to->host, host) == 0 ? SHARD_S3_HERE : SHARD_S3_ELSEWHERE;
}
