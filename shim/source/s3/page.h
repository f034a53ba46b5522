/* SPDX-License-Identifier: MIT */
/*
 * page.h - a reply of ListObjectsV2.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_S3_PAGE_KEYS 1000       /* asked for in a page */
#define SHARD_S3_TOKEN_MAX 16384      /* bytes of a continuation token */
#define SHARD_S3_PAGE_MAX (16 << 20)  /* bytes of a page */
#define SHARD_S3_PARSER_MAX (4 << 20) /* bytes that the parser may have in memory */

struct shard_s3_page {
  bool folders; /* set by the caller: take the folders (CommonPrefixes), not the keys */
  struct XML_ParserStruct *parser;
  char *keys; /* each as uint32_t length, bytes, NUL */
  size_t used, room;
  uint64_t count;
  bool truncated;
  char *token; /* NULL: none */
  /* Used while it is parsed. */
  size_t granted; /* bytes of memory that the parser has */
  bool refused;   /* it wanted more than it may have */
  char *text;     /* of the element that is open */
  size_t text_used;
  char *page; /* what has come */
  size_t received, page_room;
  unsigned depth;
  int field;
  bool said_truncated, encoded, token_masked, key_masked, in_contents, has_key;
  bool literal;           /* the open element has a CDATA section */
  bool ended;             /* the root's end tag was seen */
  long parsed, entry_end; /* bytes the parser was given; ... by the end of the last entry it read */
  char why[160];          /* what is wrong with the page; "" */
};

/* Forget the last page, and be ready for another. The struct is all zero at first. 0 or -ENOMEM. */
int shard_s3_page_begin(struct shard_s3_page *page);

/* A piece of the reply has come, of any size. 0, -EBADMSG (page->why) or -ENOMEM. */
int shard_s3_page_feed(struct shard_s3_page *page, const char *data, size_t size);

/* The reply is complete: read it. 0, -EBADMSG (page->why) or -ENOMEM. */
int shard_s3_page_end(struct shard_s3_page *page);

/* The next key, which is the page's. *at is 0 for the first. NULL: there are no more. */
const char *shard_s3_page_key(const struct shard_s3_page *page, size_t *at, size_t *length);

void shard_s3_page_free(struct shard_s3_page *page);
