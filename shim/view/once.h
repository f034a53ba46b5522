/* SPDX-License-Identifier: MIT */
/*
 * once.h - what a process does once: fill something in, print a message.
 *
 * Thread-safe, and fork-proof. A thread that fills a slot puts a mark of its process's memory
 * there. A child that was forked meanwhile finds the mark of another memory, and fills the slot
 * anew. A vforked child shares its parent's memory, and waits for the thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/words.h"
#include "config/config.h"

/* What an atomic_int slot holds, if not the mark of the memory that it is being filled in. */
enum { SHARD_ONCE_EMPTY = 0, SHARD_ONCE_READY = -1 };

/* See shard_once_enter(). */
int shard_once_wait(atomic_int *slot);

/*
 * 0: what the slot stands for is the caller's to fill in, followed by shard_once_leave(); until
 * then other threads wait here. 1: it is READY.
 */
static inline int shard_once_enter(atomic_int *slot) {
  return atomic_load_explicit(slot, memory_order_acquire) == SHARD_ONCE_READY
             ? 1
             : shard_once_wait(slot);
}

/* state: SHARD_ONCE_READY, or SHARD_ONCE_EMPTY if the next one shall try again. */
void shard_once_leave(atomic_int *slot, int state);

/* Print an error, in printf(3)'s way, unless *said, which is then set. */
#define shard_once_complain(said, ...)                                                             \
  (atomic_exchange(said, true) ? (void)0 : shard_say(SHARD_LOG_ERROR, __VA_ARGS__))
