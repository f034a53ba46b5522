/* SPDX-License-Identifier: MIT */
#include "view/once.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static _Thread_local int cancelable; /* as it was before the slot was taken */

/*
 * A mark that processes have in common if they share their memory: it lies in a page that the
 * kernel empties in the child of a fork, whatever call made that (MADV_WIPEONFORK). Where there is
 * none, the pid.
 */
static int get_mark(void) {
  static _Atomic(atomic_int *) page;
  atomic_int *mark = atomic_load(&page), *none = NULL;
  struct timespec now;
  if (!mark) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mark = map == MAP_FAILED ? NULL : map;
    if (mark && madvise(mark, size, MADV_WIPEONFORK) != 0) {
      munmap(mark, size);
      mark = NULL;
    }
    if (mark && !atomic_compare_exchange_strong(&page, &none, mark)) {
      munmap(mark, size);
      mark = none;
    }
  }
  if (!mark) {
    return (int)getpid();
  }
  /* Not the pid: that returns once a process has gone, and this may be a vforked child. */
  shard_clock_read(CLOCK_MONOTONIC, &now);
  int empty = 0, fresh = (int)(((unsigned)now.tv_nsec * 2654435761U + (unsigned)getpid()) >> 1 | 1);
  return atomic_compare_exchange_strong(mark, &empty, fresh) ? fresh : empty;
}

__attribute__((noinline)) int shard_once_wait(atomic_int *slot) {
  int saved = errno, me = get_mark();
  errno = saved;
  for (;;) {
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
