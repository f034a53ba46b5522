/* SPDX-License-Identifier: MIT */
/*
 * page.h - reads a page, which is a reply of ListObjectsV2.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_S3_PAGE_KEYS 1000      /* keys that are asked for in a page */
#define SHARD_S3_PAGE_MAX (16 << 20) /* bytes of a page, at most */

/* A page. All zeros at first. */
struct shard_s3_page {
  bool folders; /* set by the caller: folders (CommonPrefixes) are taken, not keys */
  char *keys;   /* or folders; each as uint32_t length, bytes, NUL */
  size_t used, room;
  uint64_t count; /* keys, or folders */
  bool truncated; /* more pages follow */
  char *token;    /* to ask for the next page with; NULL: none */
  char *reply;    /* the part of the reply that has come */
  size_t received, reply_room;
  char why[160]; /* the fault of the page; "" if there is none */
};

/* Empties a page, before the next reply. */
void shard_s3_page_begin(struct shard_s3_page *page);

/*
 * Adds a piece of the reply, of any size.
 * Errors: -ENOMEM; -EBADMSG, the reply is too large, and page->why tells so.
 */
int shard_s3_page_feed(struct shard_s3_page *page, const char *data, size_t size);

/*
 * Reads the keys or folders, and the token, when the reply is complete.
 * Errors: -ENOMEM; -EBADMSG, and page->why tells the fault.
 */
int shard_s3_page_end(struct shard_s3_page *page);

/*
 * Returns the next key or folder, which ends with NUL and is the page's; NULL if there are no more.
 * at: 0 for the first key; moved to the next key.
 */
const char *shard_s3_page_key(const struct shard_s3_page *page, size_t *at, size_t *length);

/* Frees what a page holds; the page can be used again. */
void shard_s3_page_free(struct shard_s3_page *page);
