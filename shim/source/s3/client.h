/* SPDX-License-Identifier: MIT */
/*
 * client.h - sends signed requests to a bucket, many at a time.
 *
 * The client retries after errors that may pass by themselves: 5xx, SlowDown, resets, stalls,
 * damaged replies. The client follows no redirect, but signs for the region that a server names. A
 * forked child uses no client of its parent. While a client is open, SIGPIPE is ignored.
 */
#pragma once

#include "source/s3/s3.h"

/*
 * A GET request. The caller owns the struct, which stays where it is until shard_s3_client_next()
 * hands the request back. A function that is NULL is not called.
 */
struct shard_s3_request {
  const char *key; /* of an object; NULL: the bucket itself */
  char *query;     /* in canonical form: sorted, percent-encoded; NULL: none */
  /*
   * Begins a reply, and forgets the pieces of an earlier reply. Called at least once for each try.
   * Errors: the request fails for good.
   */
  int (*begin)(void *context);
  /* Takes a line of the reply's head, with the line end and without a NUL. */
  void (*header)(void *context, const char *line, size_t size);
  /*
   * Takes a piece of the body, of any size.
   * Returns 0; or 1 if the rest is not wanted: the request is then handed back without end().
   * Errors: -EBADMSG, the reply is damaged: the client calls end(), which is then not NULL, for
   * the reason, and retries. After other errors the request fails for good.
   */
  int (*data)(void *context, const char *data, size_t size);
  /*
   * Ends the reply, which is complete. Called after -EBADMSG of data(), too, but only for *why.
   * Returns 0.
   * Errors: as data(); with -EBADMSG, *why gets the reason.
   */
  int (*end)(void *context, const char **why);
  void *context;
  bool optional; /* a request that fails for good is handed back with `failed`, and does not end the
                    client */
  bool failed;

  /* Of the client alone: */
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
  enum shard_log_level log; /* lines on stderr: debug, for each request; info, for each retry; warn,
                               when retries of a request go on for more than 10 s */
};

/*
 * Initialises libcurl, until the process ends. Called once in a process, while the process has a
 * single thread: curl_global_init() demands that.
 * Errors: -ENOMEM.
 */
int shard_s3_client_init(char *err, size_t size);

/*
 * Opens a client, which shard_s3_client_close() frees. shard_s3_client_init() comes first.
 * options: the account must live as long as the client, and so must the bucket's name.
 * Errors: -ENOMEM.
 */
int shard_s3_client_open(const struct shard_s3_client_options *options,
                         struct shard_s3_client **client, char *err, size_t size);

/* Queues a request, which shard_s3_client_next() sends. */
void shard_s3_client_submit(struct shard_s3_client *client, struct shard_s3_request *request);

/*
 * Sends queued requests, and waits until a request is done.
 * Returns 1, and *done is that request; 0 if no request is left.
 * Errors: a request has failed for good, shard_s3_client_error() tells why, and the client sends no
 * more.
 */
int shard_s3_client_next(struct shard_s3_client *client, struct shard_s3_request **done);

/*
 * Returns how many requests may run at a time: fewer than `connections` while the server is
 * overloaded.
 */
unsigned shard_s3_client_width(const struct shard_s3_client *client);

/* Returns how many requests were sent, retries included. */
uint64_t shard_s3_client_sent(const struct shard_s3_client *client);

/* Returns the message of the client's error, "" if there is none. Lives as long as the client. */
const char *shard_s3_client_error(const struct shard_s3_client *client);

/* Closes a client, or NULL. Requests that are under way are dropped. */
void shard_s3_client_close(struct shard_s3_client *client);
