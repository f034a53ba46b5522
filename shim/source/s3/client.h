/* SPDX-License-Identifier: MIT */
/*
 * client.h - signed requests to one bucket, many at a time.
 *
 * The client retries what may pass by itself: 5xx, SlowDown, resets, stalls, damaged replies. It
 * follows no redirect, but signs for the region that a server names. One thread uses a client; it
 * is not for a forked child.
 */
#pragma once

#include "source/s3/s3.h"

/*
 * A GET, and the functions that take its reply, NULL: not wanted. The caller owns it. It must
 * stay where it is until shard_s3_client_next() hands it back.
 */
struct shard_s3_request {
  const char *key; /* of an object; NULL: the bucket itself */
  char *query;     /* canonical: sorted, percent-encoded */
  /* A reply begins. What came of an earlier one is void. 0, or a negative errno, which ends the
   * client. Called at least once for each try. */
  int (*begin)(void *context);
  /* A line of the reply's head, with its line end, without a NUL. */
  void (*header)(void *context, const char *line, size_t size);
  /* A piece of the body, of any size. 0; 1 if nothing more of it is wanted: the request is handed
   * back, without end(); -EBADMSG if the reply is damaged: the client retries, and asks end() why;
   * or a negative errno, which ends the client. */
  int (*data)(void *context, const char *data, size_t size);
  /* The reply is complete. As data(); with -EBADMSG, *why says what is damaged. */
  int (*end)(void *context, const char **why);
  void *context;
  bool optional; /* if it fails for good, it is handed back with `failed`; the client goes on */
  bool failed;

  /* Of the client alone. */
  struct shard_s3_request *next;
  double first_failed, not_before; /* monotonic seconds */
  unsigned failures, damaged, redirects;
};

struct shard_s3_client;

struct shard_s3_client_options {
  const struct shard_s3_account *account;
  const char *bucket;
  unsigned connections;
  unsigned timeout;         /* seconds; a request that has failed for so long is given up */
  enum shard_log_level log; /* debug: a line on stderr for each request */
};

/*
 * Make libcurl ready: once in a process, while it has a single thread, as curl_global_init() wants
 * it. It stays so until the process ends. 0, or -ENOMEM and a line in err[size].
 */
int shard_s3_client_init(char *err, size_t size);

/* After shard_s3_client_init(). 0, or a negative errno and a line in err[size]. */
int shard_s3_client_open(const struct shard_s3_client_options *options,
                         struct shard_s3_client **client, char *err, size_t size);

/* Queue a request. It is sent by shard_s3_client_next(). */
void shard_s3_client_submit(struct shard_s3_client *client, struct shard_s3_request *request);

/*
 * Send what is queued, and wait until a request is done. 1: *done is. 0: none is left. A negative
 * errno: one has failed for good; the client is of no more use, shard_s3_client_error() says why.
 */
int shard_s3_client_next(struct shard_s3_client *client, struct shard_s3_request **done);

/* How many requests may run at once: fewer than `connections` while the server is overloaded. */
unsigned shard_s3_client_width(const struct shard_s3_client *client);

/* Requests sent, retries included. */
uint64_t shard_s3_client_sent(const struct shard_s3_client *client);

/* A line; "" without an error. It is the client's. */
const char *shard_s3_client_error(const struct shard_s3_client *client);

/* Requests under way are dropped. NULL is allowed. */
void shard_s3_client_close(struct shard_s3_client *client);
