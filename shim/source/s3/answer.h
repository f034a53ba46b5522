/* SPDX-License-Identifier: MIT */
/*
 * answer.h - a server's answer to a request, and what it means: what was asked for, a refusal, or
 * that the request must be sent again, later or elsewhere. client.c then does so; these functions
 * only read. They have no state of their own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "source/s3/client.h"
#include "source/s3/fault.h"
#include "source/s3/s3.h"

/* What has come of an answer. All zero at first. */
struct shard_s3_answer {
  long status;         /* 0: no head has come */
  bool in_head;        /* its head is not complete */
  time_t date;         /* the server's; 0: not told */
  char region[64];     /* of the bucket; "": not told */
  char location[1024]; /* of a redirect */
  char *body;          /* of an error: its beginning */
  size_t body_size;
};

/* Forget what has come. It is all zero then. */
void shard_s3_answer_clear(struct shard_s3_answer *answer);

enum shard_s3_line {
  SHARD_S3_HEAD_BEGINS, /* the status line; an earlier head was a proxy's, or "100 Continue" */
  SHARD_S3_HEAD_LINE,
  SHARD_S3_NOT_HEAD, /* a trailer: it follows the body */
};

/* Read a line, as libcurl hands it over. Where a head begins, the answer before it is forgotten. */
enum shard_s3_line shard_s3_answer_read_line(struct shard_s3_answer *answer, const char *line,
                                             size_t length);

/* Keep a piece of an error's body. Without memory it is lost. */
void shard_s3_answer_keep(struct shard_s3_answer *answer, const char *data, size_t size);

enum shard_s3_meaning {
  SHARD_S3_WHOLE,   /* what was asked for */
  SHARD_S3_STATUS,  /* not that, but a status that the request wants (`wants_status`) */
  SHARD_S3_LATER,   /* what may pass by itself */
  SHARD_S3_SLOWER,  /* the same, for the server has more to do than it can */
  SHARD_S3_CLOCK,   /* our clock is not the server's: answer->date */
  SHARD_S3_RESIGN,  /* the request must be signed for fault.region */
  SHARD_S3_MOVED,   /* a redirect: shard_s3_answer_target() */
  SHARD_S3_REFUSED, /* for good */
};

struct shard_s3_verdict {
  enum shard_s3_meaning meaning;
  int rc;        /* REFUSED, CLOCK, and RESIGN if it does not help: a negative errno ... */
  char why[600]; /* ... and a line for people. LATER and SLOWER: "HTTP 503 SlowDown" */
  struct shard_s3_fault fault;
};

/* What was asked, and how. */
struct shard_s3_asked {
  const struct shard_s3_request *request;
  const char *host, *region; /* the server's; what it was signed for */
  const char *secret;        /* what no message may repeat; NULL: nothing */
};

/* Judge an answer that is complete. */
void shard_s3_answer_judge(const struct shard_s3_answer *answer, const struct shard_s3_asked *asked,
                           struct shard_s3_verdict *verdict);

enum shard_s3_target { SHARD_S3_NOWHERE, SHARD_S3_HERE, SHARD_S3_ELSEWHERE };

/*
 * Where a redirect leads, seen from the host that was asked: to the same host, to another one,
 * which then is in *to, or to none that is told, or that has HTTP.
 */
enum shard_s3_target shard_s3_answer_target(const struct shard_s3_answer *answer, bool tls,
                                            const char *host, struct shard_s3_endpoint *to);
