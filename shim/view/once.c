/* SPDX-License-Identifier: MIT */
#include "view/once.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

static _Thread_local int cancelable; /* as it was before the slot was taken */

__attribute__((noinline)) int shard_once_wait(atomic_int *slot) {
  for (int me = (int)getpid();;) {
    int state = atomic_load_explicit(slot, memory_order_acquire);
    if (state == SHARD_ONCE_READY) {
      return 1;
    }
    if (state != me && atomic_compare_exchange_strong(slot, &state, me)) {
      /* A thread that was cancelled meanwhile would leave all others waiting. */
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
      return 0;
    }
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
}

void shard_once_leave(atomic_int *slot, int state) {
  atomic_store_explicit(slot, state, memory_order_release);
  pthread_setcancelstate(cancelable, NULL);
}
