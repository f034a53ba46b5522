/* SPDX-License-Identifier: MIT */
/*
 * answer.h - reads a server's answer to a request, and judges the meaning of the answer: success, a
 * refusal, or that the request is to be sent again, later or elsewhere. client.c acts on the
 * verdict. The functions have no state of their own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "source/s3/client.h"
#include "source/s3/s3.h"

/*
 * Elements of the XML that a server sends with an error, cut to what fits; "" for a missing
 * element.
 */
struct shard_s3_fault {
  char code[64], message[200], region[64], endpoint[256];
};

/*
 * Reads the elements of text[size] as far as possible: the text may be cut short, or may be no XML.
 */
void shard_s3_fault_parse(struct shard_s3_fault *fault, const char *text, size_t size);

/* The part of an answer that has come. All zeros at first. */
struct shard_s3_answer {
  long status;         /* 0: no head has come, or a head without a status */
  bool in_head;        /* the head is not complete */
  char region[64];     /* of the bucket; "": not told */
  char location[1024]; /* of a redirect */
  char *body;          /* of an error: the beginning of the body */
  size_t body_size;
};

/* Frees what an answer holds; the answer is then all zeros. */
void shard_s3_answer_clear(struct shard_s3_answer *answer);

/* The kind of a line. */
enum shard_s3_line {
  SHARD_S3_HEAD_BEGINS, /* the status line; an earlier head was a proxy's, or "100 Continue" */
  SHARD_S3_HEAD_LINE,   /* a later line of the head, or the empty line at its end */
  SHARD_S3_NOT_HEAD,    /* a trailer, which follows the body */
};

/*
 * Reads a line of an answer. A line that begins a head clears the answer first.
 * line[length]: as libcurl hands lines over, with the line end and without a NUL.
 */
enum shard_s3_line shard_s3_answer_read_line(struct shard_s3_answer *answer, const char *line,
                                             size_t length);

/*
 * Keeps a piece of an error's body, up to 16 KB in all. If there is no memory, the piece is lost.
 */
void shard_s3_answer_keep(struct shard_s3_answer *answer, const char *data, size_t size);

/* The meaning of an answer. */
enum shard_s3_meaning {
  SHARD_S3_WHOLE,        /* the request has succeeded */
  SHARD_S3_LATER,        /* an error that may pass by itself */
  SHARD_S3_SLOWER,       /* the same, and the server is overloaded */
  SHARD_S3_REGION_WRONG, /* the bucket is in another region */
  SHARD_S3_REFUSED,      /* an error that stays */
};

/* The result of judging an answer. */
struct shard_s3_verdict {
  enum shard_s3_meaning meaning;
  int rc;        /* REFUSED: a negative errno; REGION_WRONG: the errno if `region` does not help */
  char why[600]; /* a message, to go with rc; LATER and SLOWER: as "HTTP 503 SlowDown" */
  struct shard_s3_fault fault;
  char region[64]; /* REGION_WRONG: the bucket's region */
};

/* A request that was sent, and its server. */
struct shard_s3_asked {
  const struct shard_s3_request *request;
  const char *host, *region; /* the server's host; the region that the request was signed for */
  const char *secret;        /* no message may repeat this text; NULL: there is none */
};

/* Judges an answer that is complete. */
void shard_s3_answer_judge(const struct shard_s3_answer *answer, const struct shard_s3_asked *asked,
                           struct shard_s3_verdict *verdict);
