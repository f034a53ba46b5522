/* SPDX-License-Identifier: MIT */
/* A reply of ListObjectsV2, in pieces of any size: they make no difference. */
#include <errno.h>

#include "fuzz.h"
#include "source/s3/page.h"

/* Read it in pieces of `step` bytes. 0 or what shard_s3_page_feed() says. */
static int read_page(struct shard_s3_page *page, const char *data, size_t size, size_t step) {
  int rc = shard_s3_page_begin(page);
  for (size_t at = 0; at < size && rc == 0; at += step) {
    size_t piece = size - at < step ? size - at : step;
    char *alone = malloc(piece);
    RULE(alone);
    memcpy(alone, data + at, piece);
    rc = shard_s3_page_feed(page, alone, piece);
    free(alone);
  }
  return rc ? rc : shard_s3_page_end(page);
}

/* The first byte tells the size of the pieces, and whether folders are wanted. */
static void fuzz(const char *data, size_t size) {
  if (size == 0) {
    return;
  }
  static struct shard_s3_page whole, pieces;
  whole.folders = pieces.folders = (data[0] & 1) != 0;
  int rc = read_page(&whole, data + 1, size - 1, size);
  int other = read_page(&pieces, data + 1, size - 1, 1 + ((size_t)(unsigned char)data[0] >> 1));
  RULE((rc == 0) == (other == 0));
  if (rc == 0) {
    RULE(whole.count == pieces.count && whole.truncated == pieces.truncated);
    RULE(!whole.token == !pieces.token && (!whole.token || strcmp(whole.token, pieces.token) == 0));
    size_t at = 0, at_pieces = 0, length, length_pieces;
    const char *key, *key_pieces;
    uint64_t count = 0;
    while ((key = shard_s3_page_key(&whole, &at, &length))) {
      key_pieces = shard_s3_page_key(&pieces, &at_pieces, &length_pieces);
      RULE(key_pieces && length == length_pieces && memcmp(key, key_pieces, length) == 0);
      count++;
    }
    RULE(count == whole.count && !shard_s3_page_key(&pieces, &at_pieces, &length_pieces));
  } else {
    RULE(rc != -EBADMSG || whole.why[0]);
  }
  shard_s3_page_free(&whole);
  shard_s3_page_free(&pieces);
  memset(&whole, 0, sizeof(whole));
  memset(&pieces, 0, sizeof(pieces));
}
