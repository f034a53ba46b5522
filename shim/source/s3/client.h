/* SPDX-License-Identifier: MIT */
/*
 * client.h - signed requests to one bucket, many at a time, on one thread (libcurl's multi handle).
 *
 * What may pass by itself (5xx, SlowDown, resets, stalls, replies that are damaged) is tried again,
 * with full jitter. A clock that is off is corrected by the server's.
 */
#ifndef SHARD_SOURCE_S3_CLIENT_H
#define SHARD_SOURCE_S3_CLIENT_H

#include "source/s3/s3.h"

#define SHARD_S3_ETAG 80 /* with NUL, without quotes */

/* What a PUT sends: it stays open and as it is until the request is done. */
struct shard_s3_body {
  int fd; /* a regular file, sent from its beginning */
  uint64_t size;
  const char
      *hash;     /* SHA-256 in hexadecimal: signed, and kept with the object (x-amz-meta-sha256) */
  bool only_new; /* -EEXIST if the object is there already */
};

/*
 * A request, and what happens with its reply. It is the caller's, and stays where it is, until
 * shard_s3_client_next() hands it back.
 */
struct shard_s3_request {
  const char *method;               /* "GET", "HEAD", or "PUT" with a body */
  const char *key;                  /* of an object; NULL: the bucket itself */
  char *query;                      /* canonical: sorted, percent-encoded */
  const struct shard_s3_body *body; /* NULL: none */
  const char *unless; /* of a GET: not if the object has this ETag; NULL: in any case */
  /* That there is none (404), that it has that ETag (304), and that there is one already (412) are
   * answers too, not failures: done, with this status and without `end`. */
  bool tells;
  long status; /* of the reply; set when it is done */
  /* A reply begins; one that was begun before was not whole. 0 or negative errno. */
  int (*begin)(void *context);
  /* A line of its head, with its end. NULL: not of interest. */
  void (*header)(void *context, const char *line, size_t size);
  /* A piece of it. -EBADMSG: it is damaged, and is asked for again; else an error that ends all. */
  int (*data)(void *context, const char *data, size_t size);
  /* It is whole. As data; -EBADMSG with why it is damaged. */
  int (*end)(void *context, const char **why);
  void *context;
  bool optional; /* handed back, with `failed` set, where another would end the client */
  bool failed;

  /* The client's. */
  struct shard_s3_request *next;
  double first_failed, not_before; /* monotonic seconds */
  unsigned failures, damaged, redirects, skews;
};

struct shard_s3_client;

struct shard_s3_client_options {
  const struct shard_s3_account *account;
  const char *bucket;
  unsigned connections;
  unsigned timeout;         /* seconds that one request is tried for */
  enum shard_log_level log; /* debug: each request is told */
};

/*
 * Make libcurl ready: once in a process, while it has a single thread, as curl_global_init() wants
 * it. It stays so until the process ends. 0, or -ENOMEM and a line in err[size].
 */
int shard_s3_client_init(char *err, size_t size);

/* After shard_s3_client_init(). 0, or a negative errno and a line in err[size]. */
int shard_s3_client_open(const struct shard_s3_client_options *options,
                         struct shard_s3_client **client, char *err, size_t size);

/* Begin a request. */
void shard_s3_client_submit(struct shard_s3_client *client, struct shard_s3_request *request);

/*
 * Wait until a request is done: 1 and *done. 0: there is none under way. Negative errno: one has
 * failed for good, and so has the client: shard_s3_client_error().
 */
int shard_s3_client_next(struct shard_s3_client *client, struct shard_s3_request **done);

/* How many requests may run at once: fewer than `connections` where the server is overloaded. */
unsigned shard_s3_client_width(const struct shard_s3_client *client);

/* Requests sent, tries again included. */
uint64_t shard_s3_client_sent(const struct shard_s3_client *client);

const char *shard_s3_client_error(const struct shard_s3_client *client);

void shard_s3_client_close(struct shard_s3_client *client);

#endif
