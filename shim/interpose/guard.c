/* SPDX-License-Identifier: MIT */
#include "interpose/guard.h"

_Thread_local int shard_guard_depth;

int shard_guard_open(int fd, struct shard_served_dir **out) {
  shard_guard_depth++;
  int rc = shard_view_open(fd, out);
  shard_guard_depth--;
  return rc;
}
