/* SPDX-License-Identifier: MIT */
/* A reply of ListObjectsV2. */
#include <errno.h>

#include "fuzz.h"
#include "source/s3/page.h"

/* The first byte tells whether folders are wanted. */
static void fuzz(const char *data, size_t size) {
  if (size == 0) {
    return;
  }
  struct shard_s3_page page = {.folders = (data[0] & 1) != 0};
  shard_s3_page_begin(&page);
  int rc = shard_s3_page_feed(&page, data + 1, size - 1);
  rc = rc ? rc : shard_s3_page_end(&page);
  size_t at = 0, length;
  uint64_t count = 0;
  while (rc == 0 && shard_s3_page_key(&page, &at, &length)) {
    count++;
  }
  RULE(rc == 0 ? count == page.count : rc != -EBADMSG || page.why[0]);
  shard_s3_page_free(&page);
}
