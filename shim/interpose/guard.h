/* SPDX-License-Identifier: MIT */
/*
 * guard.h - marks that a thread is inside libshard's own code: wrappers that it calls then pass the
 * call on to libc. A child of fork() has the state of the thread that forked.
 */
#pragma once

#include <stdbool.h>

#include "view/view.h"

/* How many calls of libshard's code this thread is in; 0: the program's code runs. */
extern _Thread_local int shard_guard_depth __attribute__((visibility("hidden")));

/*
 * Returns whether a listing call goes to libc: libshard itself makes the call, or no view is
 * active.
 */
static inline bool shard_guard_passes(void) {
  return shard_guard_depth > 0 || !shard_view_active();
}

/* Calls shard_view_open() under the guard. */
int shard_guard_open(int fd, struct shard_served_dir **out);
