/* SPDX-License-Identifier: MIT */
/* provider.h - where servers that speak S3's protocol differ: a table, by the endpoint's host. */
#ifndef SHARD_SOURCE_S3_PROVIDER_H
#define SHARD_SOURCE_S3_PROVIDER_H

#include <stdbool.h>

#include "source/s3/sigv4.h"

struct shard_s3_provider {
  const char *name;
  const char *domain;  /* of its hosts; NULL: all others */
  const char *service; /* in the signature's scope */
  const char *region;  /* there; NULL: the account's */
  struct shard_sigv4_scheme scheme;
  /* Names of headers: of the body's hash, the time and the session token (NULL: it has none), and
   * of the SHA-256 that an object is kept with. */
  const char *content, *date, *token, *sha256;
  const char *only_new[2]; /* the header by which a PUT replaces nothing */
};

/* Never NULL. */
const struct shard_s3_provider *shard_s3_provider_of(const char *host);

#endif
