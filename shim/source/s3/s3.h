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

#define SHARD_S3_KEY_MAX 1024 /* bytes of a key */
#define SHARD_S3_BUCKET_MAX 255

/* ---- url.c ---------------------------------------------------------------------------------- */

/* s3://bucket/prefix. It is taken as it stands: "%20" is three characters of a key. */
struct shard_s3_url {
  char bucket[SHARD_S3_BUCKET_MAX + 1];
  char prefix[SHARD_S3_KEY_MAX + 1];
  size_t root; /* length of the prefix up to its last slash; names begin behind it */
};

/* true if text begins with s3:// */
bool shard_s3_url_is(const char *text);

/* 0, or -EINVAL and a line in err[size]. */
int shard_s3_url_parse(const char *text, struct shard_s3_url *url, char *err, size_t size);

/* Write text percent-encoded, as signatures want it: not A-Z a-z 0-9 - _ . ~ and, if kept, /. */
void shard_s3_url_escape(FILE *out, const char *text, size_t length, bool keep_slash);

/* An endpoint, in its parts. */
struct shard_s3_endpoint {
  bool tls;
  char host[256]; /* with the port, as in the header Host: without the scheme's own port */
  char path[256]; /* "" or "/something" */
};

/* http[s]://host[:port][/path]. 0 or -EINVAL. */
int shard_s3_url_parse_endpoint(const char *text, struct shard_s3_endpoint *endpoint);

/* Whether the bucket stands in the host's name, not in the path. AUTO: as the AWS SDKs choose. */
bool shard_s3_url_is_virtual(const struct shard_s3_endpoint *endpoint, const char *bucket,
                             enum shard_s3_addressing addressing);

/* ---- account.c ---------------------------------------------------------- */

struct shard_s3_account {
  bool sign;                     /* false: requests are anonymous */
  char *access, *secret, *token; /* token NULL: none */
  bool pays;                     /* the requester pays for a bucket that asks for that */
  char *owner;                   /* the account that must own the bucket; NULL: any */
  char *region;
  char *endpoint;  /* NULL: the host of the region (shard_s3_provider_home) */
  char *ca_bundle; /* NULL: the system's */
  bool unverified; /* any certificate of the server's will do */
  enum shard_s3_addressing addressing;
};

/*
 * Read the account from the environment and the shared files; without keys if anonymous. 0, or a
 * negative errno and a line in err[size], which never holds a secret. Free it in either case.
 */
int shard_s3_account_load(struct shard_s3_account *account, bool anonymous,
                          enum shard_s3_addressing addressing, char *err, size_t size);
void shard_s3_account_free(struct shard_s3_account *account);

/* Whether a text can be a region: it becomes part of a host's name. */
bool shard_s3_account_is_region(const char *text);

/* ---- list.c --------------------------------------------------------------------------------- */

struct shard_s3_listing {
  struct shard_s3_url url;
  const struct shard_s3_account *account;
  unsigned connections;
  unsigned timeout;         /* seconds; a page that has failed for so long is given up */
  enum shard_log_level log; /* debug: a line on stderr for each request */
  /* Takes a key, which ends with NUL, on the caller's thread. Each key comes once; they come in no
   * order. 0, or a negative errno, which ends the listing. */
  int (*key)(void *context, const char *key, size_t length);
  void *context;
  /* Filled. */
  uint64_t keys, requests, retries;
};

/* List the keys. 0, or a negative errno and a line in err[size]; "" if key() or page() failed. */
int shard_s3_list_keys(struct shard_s3_listing *listing, char *err, size_t size);

/* ---- object.c ------------------------------------------------------------------------------- */

struct shard_s3_client;

/*
 * Get an object into an empty file, and check it. 0, or a negative errno and a line in err[size].
 *
 * manifest_max 0: it is a listing. If it has more than 1 MiB and is none, or is larger than its
 * header tells, only the header is got: opening that fails, and says why. Else it is a manifest:
 * -EFBIG if it has more bytes than manifest_max. No object is got for which the file system of `fd`
 * has no room.
 */
int shard_s3_object_get(struct shard_s3_client *client, const char *key, uint64_t manifest_max,
                        int fd, char *err, size_t size);
