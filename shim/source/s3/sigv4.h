/* SPDX-License-Identifier: MIT */
/*
 * sigv4.h - AWS Signature Version 4, in a header; Google's is the same with other words.
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define SHARD_SIGV4_DATE 17 /* "20150830T123600Z" and NUL */
#define SHARD_SIGV4_HASH 65 /* SHA-256 in hexadecimal and NUL */

struct shard_sigv4_scheme {
  const char *algorithm, *prefix, *end; /* prefix of the secret, end of the scope */
};
#define SHARD_SIGV4_AWS                                                                            \
  { "AWS4-HMAC-SHA256", "AWS4", "aws4_request" }

struct shard_sigv4_key {
  const char *access, *secret, *region, *service;
  const struct shard_sigv4_scheme *scheme;
};

/* The name is in lower case. The value is signed without blanks around it, and with single ones. */
struct shard_sigv4_header {
  const char *name, *value;
};

/* What is signed. Path and query are in canonical form: see shard_s3_url_escape(). */
struct shard_sigv4_request {
  const char *method, *path, *query;
  const struct shard_sigv4_header *headers; /* sorted by name; host and the date among them */
  size_t header_count;
  const char *payload; /* SHA-256 of the body, or UNSIGNED-PAYLOAD */
  const char *date;    /* as shard_sigv4_date() writes it */
};

/* A time as signatures have it; "" if its year has not four digits. */
void shard_sigv4_date(time_t when, char date[SHARD_SIGV4_DATE]);

/* SHA-256 in hexadecimal. false: OpenSSL fails. */
bool shard_sigv4_hash(const void *data, size_t size, char hex[SHARD_SIGV4_HASH]);

/* The value of the header Authorization; malloc'd. NULL: no memory, or OpenSSL fails. */
char *shard_sigv4_sign(const struct shard_sigv4_key *key,
                       const struct shard_sigv4_request *request);
