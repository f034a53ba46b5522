/* SPDX-License-Identifier: MIT */
/*
 * page.h - a reply of ListObjectsV2, parsed while it arrives.
 */
#ifndef SHARD_SOURCE_S3_PAGE_H
#define SHARD_SOURCE_S3_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SHARD_S3_PAGE_KEYS 1000      /* asked for in a page */
#define SHARD_S3_TOKEN_MAX 16384     /* bytes of a continuation token */
#define SHARD_S3_PAGE_MAX (16 << 20) /* bytes of a page */

struct shard_s3_page {
  bool folders; /* of keys and folders (CommonPrefixes), take the folders */
  struct XML_ParserStruct *parser;
  char *keys; /* each as uint32_t length, bytes */
  size_t used, room;
  uint64_t count;
  bool truncated;
  char *token; /* NULL: none */
  /* While it is parsed. */
  char *text; /* of the element that is being read */
  size_t text_used, received;
  char held[16]; /* the beginning of a reference, at the end of a piece */
  size_t held_used;
  unsigned state; /* which mark is looked for, and how much of it has come */
  size_t matched, gathered_used;
  char gathered[16384];
  unsigned depth;
  int field;
  bool said_truncated, encoded, token_masked, key_masked, in_contents, has_key;
  bool literal;           /* the element that is being read has a CDATA section */
  bool ended;             /* the root's end tag was seen */
  bool adjacent, direct;  /* nothing has come since the last entry; this one was taken directly */
  long parsed, entry_end; /* bytes given to the parser; those up to the end of an entry */
  char why[160];
};

/* Be ready for a page; what the last one held goes. 0 or -ENOMEM. Begin with all zero. */
int shard_s3_page_begin(struct shard_s3_page *page);

/* More of the reply. 0, -EBADMSG (it is no page: page->why) or -ENOMEM. */
int shard_s3_page_feed(struct shard_s3_page *page, const char *data, size_t size);

/* The reply is over: keys are decoded. 0, -EBADMSG or -ENOMEM. */
int shard_s3_page_end(struct shard_s3_page *page);

/* The next key: *at 0 at first. NULL at the end. Not ended by NUL. */
const char *shard_s3_page_key(const struct shard_s3_page *page, size_t *at, size_t *length);

void shard_s3_page_free(struct shard_s3_page *page);

#endif
