/* SPDX-License-Identifier: MIT */
/*
 * s3.h - a bucket as a source of names (shardctl only).
 *
 *   s3.h           declarations that the modules share
 *   url.c          s3://bucket/prefix, endpoints, percent-encoding
 *   account.c      keys, region and endpoint, as AWS tools find them
 *   provider.c     where servers differ: a row for each; lines of a reply's head
 *   sigv4.c        signatures
 *   client.c       requests: connections, retries, redirects
 *   answer.c       what an answer means
 *   xml.c          elements of a reply
 *   page.c         a page of ListObjectsV2
 *   list.c         a prefix listed in ranges, in parallel
 *   split.c        where to divide a range of keys
 *   folders.c      folders that are known by name
 *   prefix.c       keys become names of a listing
 *   object.c       whole objects, to files
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/config.h"

#define SHARD_S3_KEY_MAX 1024   /* bytes of a key, at most */
#define SHARD_S3_BUCKET_MAX 255 /* bytes of a bucket's name, at most */

/* ---- url.c ---------------------------------------------------------------------------------- */

/* The parts of s3://bucket/prefix, not decoded: "%20" is three characters of a key. */
struct shard_s3_url {
  char bucket[SHARD_S3_BUCKET_MAX + 1];
  char prefix[SHARD_S3_KEY_MAX + 1];
  size_t root; /* length of the prefix up to its last slash; names begin behind it */
};

/* Returns whether a text begins with s3://. */
bool shard_s3_url_is(const char *text);

/* Parses s3://bucket/prefix. Errors: -EINVAL. */
int shard_s3_url_parse(const char *text, struct shard_s3_url *url, char *err, size_t size);

/*
 * Writes text[length] percent-encoded, as signatures demand: every byte but A-Z a-z 0-9 - _ . ~
 * and, if keep_slash, /.
 */
void shard_s3_url_escape(FILE *out, const char *text, size_t length, bool keep_slash);

/* The parts of an endpoint. */
struct shard_s3_endpoint {
  bool tls;
  char host[256]; /* with the port, as in the header Host: without the scheme's own port */
  char path[256]; /* "" or "/something" */
};

/* Parses http[s]://host[:port][/path]. Errors: -EINVAL. */
int shard_s3_url_parse_endpoint(const char *text, struct shard_s3_endpoint *endpoint);

/*
 * Returns whether the bucket stands in the host's name, not in the path.
 * addressing: AUTO chooses as the AWS SDKs do.
 */
bool shard_s3_url_is_virtual(const struct shard_s3_endpoint *endpoint, const char *bucket,
                             enum shard_s3_addressing addressing);

/* ---- account.c ---------------------------------------------------------- */

/* The account that signs requests, and the server. */
struct shard_s3_account {
  bool sign;                     /* false: requests are anonymous */
  char *access, *secret, *token; /* token: NULL if there is none */
  bool pays;                     /* the requester pays for a bucket that demands that */
  char *owner;                   /* the account that must own the bucket; NULL: any */
  char *region;
  char *endpoint;  /* NULL: the host of the region (shard_s3_provider_home) */
  char *ca_bundle; /* NULL: the system's */
  bool unverified; /* every certificate of the server is accepted */
  enum shard_s3_addressing addressing;
};

/*
 * Reads the account from the environment and the shared files. shard_s3_account_free() frees the
 * account, after an error too.
 * anonymous: no keys are read.
 * Errors: -EINVAL; err[size] never holds a secret.
 */
int shard_s3_account_load(struct shard_s3_account *account, bool anonymous,
                          enum shard_s3_addressing addressing, char *err, size_t size);

/* Erases the keys and frees what an account holds; the account is then all zeros. */
void shard_s3_account_free(struct shard_s3_account *account);

/* Returns whether a text can be a region, which becomes part of a host's name. */
bool shard_s3_account_is_region(const char *text);

/* ---- list.c --------------------------------------------------------------------------------- */

/* A prefix that is listed, and the function that takes the keys. */
struct shard_s3_listing {
  struct shard_s3_url url;
  const struct shard_s3_account *account;
  unsigned connections;
  unsigned timeout;         /* seconds; a page that has failed for so long is given up */
  enum shard_log_level log; /* as in struct shard_s3_client_options */
  /*
   * Takes a key, which ends with NUL, on the caller's thread. Each key comes once; the keys come in
   * no order.
   * Errors: end the listing.
   */
  int (*key)(void *context, const char *key, size_t length);
  void *context;
  /* Set by shard_s3_list_keys(): */
  uint64_t keys, requests, retries;
};

/*
 * Lists the keys of a prefix.
 * Errors: err[size] is "" if key() failed, and may be "" after -ENOMEM.
 */
int shard_s3_list_keys(struct shard_s3_listing *listing, char *err, size_t size);

/* ---- object.c ------------------------------------------------------------------------------- */

struct shard_s3_client;

/*
 * Gets an object into an empty file, and checks the object. An object for which the file system of
 * `fd` has no room is not got.
 * manifest_max: 0 for a listing. If the object has more than 1 MiB, and is no listing or is larger
 * than its header tells, only the header is got: opening the file then fails, and tells why. Else
 * the object is a manifest, of `manifest_max` bytes at most.
 * Errors: -EFBIG, the manifest is larger; -ENOSPC; of shard_s3_client_next(). The client then sends
 * no more.
 */
int shard_s3_object_get(struct shard_s3_client *client, const char *key, uint64_t manifest_max,
                        int fd, char *err, size_t size);
