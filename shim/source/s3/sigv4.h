/* SPDX-License-Identifier: MIT */
/*
 * sigv4.h - signs requests by AWS Signature Version 4, in a header. Google's signatures are the
 * same with other words.
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define SHARD_SIGV4_DATE 17 /* "20150830T123600Z" and NUL */
#define SHARD_SIGV4_HASH 65 /* SHA-256 in hexadecimal and NUL */

/* The words of a provider's signatures. */
struct shard_sigv4_scheme {
  const char *algorithm, *prefix, *end; /* prefix: of the secret; end: of the scope */
};
#define SHARD_SIGV4_AWS                                                                            \
  { "AWS4-HMAC-SHA256", "AWS4", "aws4_request" }

/* The key of a signature, and the scope. */
struct shard_sigv4_key {
  const char *access, *secret, *region, *service;
  const struct shard_sigv4_scheme *scheme;
};

/*
 * A header that is signed. The name is in lower case. Blanks around the value are left out of the
 * signature, and several blanks in the value are signed as a single blank.
 */
struct shard_sigv4_header {
  const char *name, *value;
};

/* A request that is signed. Path and query are in canonical form: see shard_s3_url_escape(). */
struct shard_sigv4_request {
  const char *method, *path, *query;
  const struct shard_sigv4_header *headers; /* sorted by name; host and the date among them */
  size_t header_count;
  const char *payload; /* SHA-256 of the body, or UNSIGNED-PAYLOAD */
  const char *date;    /* as shard_sigv4_date() prints it */
};

/* Prints a time as signatures have it; "" if the year has more than four digits. */
void shard_sigv4_date(time_t when, char date[SHARD_SIGV4_DATE]);

/* Prints the SHA-256 of data[size] in hexadecimal. Returns false if OpenSSL fails. */
bool shard_sigv4_hash(const void *data, size_t size, char hex[SHARD_SIGV4_HASH]);

/*
 * Returns the value of the header Authorization; malloc'd, the caller's to free. NULL: there is no
 * memory, or OpenSSL fails.
 */
char *shard_sigv4_sign(const struct shard_sigv4_key *key,
                       const struct shard_sigv4_request *request);
