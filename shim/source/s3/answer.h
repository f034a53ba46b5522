/* SPDX-License-Identifier: MIT */
/*
 * answer.h - a server's answer to a request, and what it means: what was asked for, a refusal, or
 * that the request must be sent again, later or elsewhere. client.c then does so; these functions
 * only read. They have no state of their own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "source/s3/client.h"
#include "source/s3/s3.h"

/* The XML that a server sends with an error: elements, cut to what fits; "" what is not there. */
struct shard_s3_fault {
  char code[64], message[200], region[64], endpoint[256];
};

/* Read what can be read of text[size]: it may be no XML at all, or cut short. */
void shard_s3_fault_parse(struct shard_s3_fault *fault, const char *text, size_t size);

/* What has come of an answer. All zero at first. */
struct shard_s3_answer {
  long status;         /* 0: no head has come */
  bool in_head;        /* its head is not complete */
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
  SHARD_S3_WHOLE,        /* what was asked for */
  SHARD_S3_LATER,        /* what may pass by itself */
  SHARD_S3_SLOWER,       /* the same, for the server has more to do than it can */
  SHARD_S3_REGION_WRONG, /* the bucket is in `region` */
  SHARD_S3_REFUSED,      /* for good */
};

struct shard_s3_verdict {
  enum shard_s3_meaning meaning;
  int rc;        /* REFUSED, and REGION_WRONG if that does not help: a negative errno ... */
  char why[600]; /* ... and a line for people. LATER and SLOWER: "HTTP 503 SlowDown" */
  struct shard_s3_fault fault;
  char region[64]; /* REGION_WRONG */
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
