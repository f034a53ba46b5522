/* SPDX-License-Identifier: MIT */
/*
 * s3.h - a bucket as a source of names (shardctl only).
 *
 *   url.c          s3://bucket/prefix, endpoints, percent-encoding
 *   credentials.c  keys, region and endpoint, as AWS tools find them
 *   sigv4.c        signatures
 *   provider.c     where servers differ: S3, Google Cloud Storage
 *   client.c       requests: connections, tries, redirects, what errors mean
 *   page.c         a page of ListObjectsV2: XML
 *   split.c        where to divide a range of keys
 *   folders.c      folders that are known by name
 *   list.c         ranges listed in parallel
 *   object.c       whole objects, from and to files
 */
#ifndef SHARD_SOURCE_S3_S3_H
#define SHARD_SOURCE_S3_S3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/config.h"

#define SHARD_S3_KEY_MAX 1024 /* bytes of a key */
#define SHARD_S3_BUCKET_MAX 255

/* ---- url.c ---------------------------------------------------------------------------------- */

/* s3://bucket/prefix, taken as it stands: nothing in it is percent-encoded. */
struct shard_s3_url {
  char bucket[SHARD_S3_BUCKET_MAX + 1];
  char prefix[SHARD_S3_KEY_MAX + 1];
  size_t root; /* bytes of the prefix up to its last slash: what names are relative to */
};

/* true if text begins with s3:// */
bool shard_s3_is_url(const char *text);

/* 0, or -EINVAL and a line in err[size]. */
int shard_s3_url_parse(const char *text, struct shard_s3_url *url, char *err, size_t size);

/* Percent-encode as signatures want it: all but A-Z a-z 0-9 - _ . ~ and, if kept, the slash. */
void shard_s3_url_escape(FILE *out, const char *text, size_t length, bool keep_slash);

/* Decode %XX, and + as a blank, in place. The length, or -1 if it is not well-formed. */
ssize_t shard_s3_url_unescape(char *text, size_t length);

/* An endpoint taken apart. */
struct shard_s3_endpoint {
  bool tls;
  char host[256]; /* with the port, as it stands in the header Host */
  char path[256]; /* "" or "/something" */
};

/* http[s]://host[:port][/path]. 0 or -EINVAL. */
int shard_s3_url_parse_endpoint(const char *text, struct shard_s3_endpoint *endpoint);

/* Whether the bucket goes into the host's name, as the AWS SDKs choose. */
bool shard_s3_url_is_virtual(const struct shard_s3_endpoint *endpoint, const char *bucket,
                             enum shard_s3_addressing addressing);

/* ---- credentials.c -------------------------------------------------------------------------- */

struct shard_s3_account {
  bool sign;                     /* false: requests are anonymous */
  char *access, *secret, *token; /* token NULL: none */
  char *region;
  char *endpoint;  /* NULL: AWS's of the region */
  char *ca_bundle; /* NULL: the system's */
  enum shard_s3_addressing addressing;
};

/*
 * From the environment and the shared files. anonymous: no keys are looked for. 0, or a negative
 * errno and a line in err[size], which never holds a secret. Free it in either case.
 */
int shard_s3_account_load(struct shard_s3_account *account, bool anonymous,
                          enum shard_s3_addressing addressing, char *err, size_t size);
void shard_s3_account_free(struct shard_s3_account *account);

/* ---- list.c --------------------------------------------------------------------------------- */

struct shard_s3_listing {
  struct shard_s3_url url;
  const struct shard_s3_account *account;
  unsigned connections;
  unsigned timeout;                     /* seconds that a page is tried for */
  enum shard_log_level log;             /* debug: a line on stderr for each request */
  const char *start_after, *end_before; /* whole keys, exclusive; NULL: none */
  /* Receives a key, from one thread, in no order. A negative errno ends the listing. */
  int (*key)(void *context, const char *key, size_t length);
  int (*page)(void *context); /* the same, after the keys of a page; NULL: none */
  void *context;
  /* Filled. */
  uint64_t keys, requests, retries;
};

/* 0, or a negative errno and a line in err[size]; "" if `key` was at fault. */
int shard_s3_list_keys(struct shard_s3_listing *listing, char *err, size_t size);

/* ---- object.c ------------------------------------------------------------------------------- */

struct shard_s3_client_options;

/* Get an object into an empty file, checked. 0, or a negative errno and a line in err[size]. */
int shard_s3_object_get(const struct shard_s3_client_options *options, const char *key, int fd,
                        char *err, size_t size);

struct shard_s3_client;

/*
 * The same, by a client that is open, if there is an object and its ETag is not etag[] (""), which
 * then becomes its. 1: it is in `fd`. 0: there is none (etag[] is empty), or it is that one.
 */
int shard_s3_object_get_other(struct shard_s3_client *client, const char *key, char *etag, int fd,
                              char *err, size_t size);

struct shard_s3_upload {
  const char *key, *file;
  bool only_new; /* -EEXIST if the object is there already (If-None-Match) */
};

/*
 * Put files, several at a time. 0, or a negative errno and a line in err[size]: then some of them
 * may be there. Each object appears whole or not at all.
 */
int shard_s3_object_put(const struct shard_s3_client_options *options,
                        const struct shard_s3_upload *uploads, size_t count, char *err,
                        size_t size);

#endif
