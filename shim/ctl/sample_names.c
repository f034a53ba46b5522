/* SPDX-License-Identifier: MIT */
#include "ctl/sample_names.h"

#include <errno.h>

#include "libshard.h"
#include "listing/samples.h"

#define NEAR 64 /* names; reading so many takes less time than a search */

int ctl_sample_names(const struct shard_listing *l, uint64_t k,
                     int (*take)(void *context, const char *name, size_t length), void *context) {
  static struct shard_cursor c;
  static uint64_t at = UINT64_MAX; /* the cursor's position */
  int64_t begin = shard_listing_sample_begin(l, k), end = shard_listing_sample_begin(l, k + 1);
  if (begin < 0 || end < 0) {
    return -EBADMSG;
  }
  int rc = 0;
  if ((uint64_t)begin < at || (uint64_t)begin - at > NEAR) {
    rc = shard_listing_seek(&c, l, (uint64_t)begin);
    at = (uint64_t)begin;
  }
  for (; rc == 0 && at < (uint64_t)end; at++) {
    const char *name;
    ssize_t n = shard_listing_next(&c, &name);
    rc = n <= 0                 ? n < 0 ? (int)n : -EBADMSG
         : at < (uint64_t)begin ? 0
                                : take(context, name, (size_t)n);
  }
  return rc;
}
