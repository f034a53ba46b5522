/* SPDX-License-Identifier: MIT */
/*
 * provider.h - where servers that speak S3's protocol differ: a table with a row for each.
 *
 * To add a provider, add its row to provider.c and to the test `providers`
 * (tests/unit/test_s3_providers.c). Nothing else names a provider, its hosts or its headers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "source/s3/sigv4.h"

struct shard_s3_provider {
  const char *name;
  const char *domains[3]; /* its hosts end with one of these; none: the row of all other hosts */
  /* Its host in a region that begins so, for who gives no endpoint. One row has them. */
  struct {
    const char *region, *host; /* %s: the region */
  } homes[3];
  /* Signatures. */
  const char *service; /* in the scope */
  const char *region;  /* in the scope; NULL: the account's */
  struct shard_sigv4_scheme scheme;
  /* Headers of requests: the body's hash, the time, the session token (NULL: it has none). */
  const char *content, *date, *token;
  const char *payer, *owner; /* who pays, and whose the bucket must be; NULL: it has none */
  /* Headers of replies: the bucket's region (NULL: not told), and those that say that an object is
   * encrypted, such that its ETag is no MD5; not so with the value `plain`. */
  const char *bucket_region;
  struct {
    const char *name, *plain;
  } encrypted[3];
};

/* The row of a host, with or without a port. Never NULL. */
const struct shard_s3_provider *shard_s3_provider_of(const char *host);

/* The row that has homes. */
const struct shard_s3_provider *shard_s3_provider_home(void);

/* Write its host in a region. Only for the row that has homes. */
void shard_s3_provider_host(const struct shard_s3_provider *provider, const char *region,
                            char *host, size_t size);

enum shard_s3_fact {
  SHARD_S3_NO_FACT,
  SHARD_S3_REGION,    /* of the bucket */
  SHARD_S3_ENCRYPTED, /* the ETag is no MD5 */
};

/*
 * What a line of a reply's head tells, in the words of any provider: a gateway may pass on those of
 * the server behind it. The value is in value[], "" if it does not fit.
 */
enum shard_s3_fact shard_s3_provider_read(const char *line, size_t length, char *value,
                                          size_t size);

/*
 * Whether a line of a reply's head, as libcurl hands it over (with its end, without a NUL), is this
 * header, in upper or lower case. Then its value is in value[], without blanks around it, and "" if
 * it does not fit.
 */
bool shard_s3_head_value(const char *line, size_t length, const char *name, char *value,
                         size_t size);
