/* SPDX-License-Identifier: MIT */
/*
 * provider.h - tells where servers that speak S3's protocol differ: a table with a row for each
 * provider.
 *
 * To add a provider, add a row to provider.c and to the test `providers`
 * (tests/unit/test_s3_providers.c). Nothing else names a provider, its hosts or its headers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "source/s3/sigv4.h"

/* A row of the table. */
struct shard_s3_provider {
  const char *name;
  const char *domains[3]; /* ends of the provider's hosts; none: the row of all other hosts */
  /* Hosts for accounts that give no endpoint: the host in regions whose names begin with `region`.
   * Only one row has homes. */
  struct {
    const char *region, *host; /* %s stands for the region */
  } homes[3];
  /* Of signatures: */
  const char *service; /* in the scope */
  const char *region;  /* in the scope; NULL: the account's region */
  struct shard_sigv4_scheme scheme;
  /* Headers of requests: the body's hash, the time, the session token (NULL: there is none). */
  const char *content, *date, *token;
  const char *payer, *owner; /* payer: the requester pays; owner: the account that must own the
                                bucket; NULL: there is none */
  /* Headers of replies: the bucket's region (NULL: not told); and headers which say that an object
   * is encrypted such that the ETag is no MD5, except with the value `plain`. */
  const char *bucket_region;
  struct {
    const char *name, *plain;
  } encrypted[3];
};

/* Returns the row of a host, with or without a port. Never NULL. */
const struct shard_s3_provider *shard_s3_provider_of(const char *host);

/* Returns the row that has homes. */
const struct shard_s3_provider *shard_s3_provider_home(void);

/*
 * Prints the provider's host in a region into host[size].
 * provider: the row that has homes.
 */
void shard_s3_provider_host(const struct shard_s3_provider *provider, const char *region,
                            char *host, size_t size);

/* A fact that a line of a reply's head tells. */
enum shard_s3_fact {
  SHARD_S3_NO_FACT,
  SHARD_S3_REGION,    /* of the bucket */
  SHARD_S3_ENCRYPTED, /* the ETag is no MD5 */
};

/*
 * Reads a line of a reply's head for a fact, by the header names of all providers: a gateway may
 * pass on headers of the server behind the gateway.
 * line[length]: as libcurl hands lines over, with the line end and without a NUL.
 * value[size]: gets the header's value, "" if the value does not fit.
 */
enum shard_s3_fact shard_s3_provider_read(const char *line, size_t length, char *value,
                                          size_t size);

/*
 * Reads a line of a reply's head, if the line is the header `name`, in upper or lower case.
 * line[length]: as libcurl hands lines over, with the line end and without a NUL.
 * value[size]: gets the value without blanks around it, "" if the value does not fit.
 * Returns whether the line is that header.
 */
bool shard_s3_head_value(const char *line, size_t length, const char *name, char *value,
                         size_t size);
