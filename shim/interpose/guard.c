/* SPDX-License-Identifier: MIT */
#include "interpose/guard.h"

#include <pthread.h>

_Thread_local int shard_depth;

int shard_guard_open(int fd, struct shard_served **out) {
  int state;
  /* A thread that was cancelled while it sets up the view would leave all others waiting. */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  shard_depth++;
  int rc = shard_view_open(fd, out);
  shard_depth--;
  pthread_setcancelstate(state, NULL);
  return rc;
}
