/* SPDX-License-Identifier: MIT */
#include "interpose/guard.h"

_Thread_local int shard_depth;

int shard_guard_open(int fd, struct shard_served **out) {
  shard_depth++;
  int rc = shard_view_open(fd, out);
  shard_depth--;
  return rc;
}
