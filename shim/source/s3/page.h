/* SPDX-License-Identifier: MIT */
/*
 * page.h - a reply of ListObjectsV2.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_S3_PAGE_KEYS 1000      /* asked for in a page */
#define SHARD_S3_PAGE_MAX (16 << 20) /* bytes of a page */

struct shard_s3_page {
  bool folders; /* set by the caller: take the folders (CommonPrefixes), not the keys */
  char *keys;   /* each as uint32_t length, bytes, NUL */
  size_t used, room;
  uint64_t count;
  bool truncated;
  char *token; /* NULL: none */
  char *reply; /* what has come */
  size_t received, reply_room;
  char why[160]; /* what is wrong with the page; "" */
};

/* Forget the last page, and be ready for another. The struct is all zero at first. */
void shard_s3_page_begin(struct shard_s3_page *page);

/* A piece of the reply has come, of any size. 0, -EBADMSG (page->why) or -ENOMEM. */
int shard_s3_page_feed(struct shard_s3_page *page, const char *data, size_t size);

/* The reply is complete: read it. 0, -EBADMSG (page->why) or -ENOMEM. */
int shard_s3_page_end(struct shard_s3_page *page);

/* The next key, which is the page's. *at is 0 for the first. NULL: there are no more. */
const char *shard_s3_page_key(const struct shard_s3_page *page, size_t *at, size_t *length);

void shard_s3_page_free(struct shard_s3_page *page);
