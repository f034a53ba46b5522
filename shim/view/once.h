/* SPDX-License-Identifier: MIT */
/*
 * once.h - what a process does once: fill in a value, print a message.
 *
 * An atomic_int slot stands for a value. While a thread fills in the value, the slot holds the id
 * of the thread's memory. A child that was forked meanwhile sees the id of another memory, and
 * fills in the value anew; a vforked child shares its parent's memory, and waits for the thread.
 * While a thread has entered, it cannot be cancelled.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/words.h"
#include "config/config.h"

/* What a slot holds, if not the id of the memory in which it is being filled in. */
enum { SHARD_ONCE_EMPTY = 0, SHARD_ONCE_READY = -1 };

/* Does the work of shard_once_enter() for a slot that is not READY. */
int shard_once_wait(atomic_int *slot);

/*
 * Enters a slot, or waits until it is READY.
 * Returns 0 if the caller must fill in the value, and then call shard_once_leave(); until then
 * other threads wait. 1: the slot is READY.
 */
static inline int shard_once_enter(atomic_int *slot) {
  return atomic_load_explicit(slot, memory_order_acquire) == SHARD_ONCE_READY
             ? 1
             : shard_once_wait(slot);
}

/* Leaves a slot. state: SHARD_ONCE_READY; SHARD_ONCE_EMPTY if the next caller must try again. */
void shard_once_leave(atomic_int *slot, int state);

/* Prints an error, from a format of printf(3), unless *reported, and sets *reported. */
#define shard_once_report(reported, ...)                                                           \
  (atomic_exchange(reported, true) ? (void)0 : shard_say(SHARD_LOG_ERROR, __VA_ARGS__))
