/* SPDX-License-Identifier: MIT */
/*
 * guard.h - set while a thread is inside our own code. A wrapper that is called then passes the
 * call on to libc. A child of fork() has the state of the thread that forked.
 */
#pragma once

#include <stdbool.h>

#include "view/view.h"

/* How deep this thread is in our code; 0: it is the program's. */
extern _Thread_local int shard_guard_depth __attribute__((visibility("hidden")));

/* Whether a listing call is libc's: we have made it, or no view is active. */
static inline bool shard_guard_passes(void) {
  return shard_guard_depth > 0 || !shard_view_active();
}

/* shard_view_open() under the guard. */
int shard_guard_open(int fd, struct shard_served **out);
