/* SPDX-License-Identifier: MIT */
#include "source/s3/answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "source/s3/provider.h"
#include "source/s3/xml.h"

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

void shard_s3_fault_parse(struct shard_s3_fault *fault, const char *text, size_t size) {
  const struct {
    const char *name;
    char *to;
    size_t size;
  } fields[] = {{"Code", fault->code, sizeof(fault->code)},
                {"Message", fault->message, sizeof(fault->message)},
                {"Region", fault->region, sizeof(fault->region)},
                {"Endpoint", fault->endpoint, sizeof(fault->endpoint)}};
  struct shard_xml x;
  char *copy = malloc(size + 1);
  *fault = (struct shard_s3_fault){0};
  if (!copy) {
    return;
  }
  shard_xml_open(&x, memcpy(copy, text, size), size);
  for (enum shard_xml_event event; (event = shard_xml_next(&x)) < SHARD_XML_WHOLE;) {
    for (size_t i = 0; event == SHARD_XML_ENDS && i < sizeof(fields) / sizeof(fields[0]); i++) {
      if (shard_xml_is(&x, fields[i].name)) {
        snprintf(fields[i].to, fields[i].size, "%.*s", (int)x.text.length, x.text.bytes);
        for (char *c = fields[i].to; *c; c++) { /* one line */
          *c = (char)((unsigned char)*c < 0x20 ? ' ' : *c);
        }
      }
    }
  }
  free(copy);
}

/* ---- what it means ------------------------------------------------------ */

/* Whether an error of the server's stays: not implemented, no such version, a hotel's net. */
static bool is_lasting(long status) { return status == 501 || status == 505 || status == 511; }

static bool is_redirect(long status) { return status >= 300 && status < 400; }

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
    {"InvalidBucketName", "this is no name of a bucket", -EINVAL},
    {"RequestTimeTooSkewed", "this host's clock is wrong, or the server's", -EACCES},
};

static const char *name_permission(const struct shard_s3_request *r) {
  return r->key ? "no permission to read it (s3:GetObject), or there is none"
                : "no permission to list it (s3:ListBucket)";
}

#define SECRET_PART 12 /* so many bytes of a secret are one */

/* Empty a text in which the server says back a secret that it was told, or what fits of it; what
 * would control a terminal becomes '?'. */
static void hide(char *text, const char *secret) {
  for (char *c = text; *c; c++) {
    *c = (char)((unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c);
  }
  size_t length = strlen(text), part = strlen(secret);
  part = part < SECRET_PART ? part : SECRET_PART;
  for (size_t i = 0; part > 0 && i + part <= length; i++) {
    if (memmem(secret, strlen(secret), text + i, part)) {
      text[0] = 0;
      return;
    }
  }
}

/* A refusal, for people. */
static void explain_refusal(const struct shard_s3_asked *asked, const struct shard_s3_answer *a,
                            struct shard_s3_verdict *v) {
  const struct shard_s3_fault *fault = &v->fault;
  long status = a->status;
  if (is_redirect(status)) {
    char to[256];
    snprintf(to, sizeof(to), "%s", a->location[0] ? a->location : fault->endpoint);
    to[strcspn(to, "?")] = 0; /* behind it may be a signature */
    hide(to, asked->secret ? asked->secret : "");
    v->rc = -EREMOTE;
    snprintf(v->why, sizeof(v->why),
             "%s redirects to '%s', which is not followed; if it is right, set "
             "AWS_ENDPOINT_URL_S3 and AWS_REGION",
             asked->host, to[0] ? to : "another place");
    return;
  }
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
  if (a->status == 429 || a->status == 503 || strcmp(code, "SlowDown") == 0) {
    return SHARD_S3_SLOWER;
  }
  if ((a->status >= 500 && !is_lasting(a->status)) || a->status == 408 ||
      strcmp(code, "RequestTimeout") == 0) {
    return SHARD_S3_LATER;
  }
  /* A redirect, or AuthorizationHeaderMalformed. */
  const char *region = a->region[0] ? a->region : fault->region;
  if ((a->status == 400 || is_redirect(a->status)) && shard_s3_account_is_region(region) &&
      strcmp(region, asked->region) != 0) {
    return SHARD_S3_REGION_WRONG;
  }
  return SHARD_S3_REFUSED;
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
  } else {
    snprintf(v->region, sizeof(v->region), "%s", a->region[0] ? a->region : fault->region);
    explain_refusal(asked, a, v);
  }
}
