/* SPDX-License-Identifier: MIT */
#include "view/once.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static _Thread_local int cancelable; /* the thread's cancel state before it entered a slot */

/*
 * Returns a number that processes have in common only if they share their memory. The number lies
 * in a page that the kernel clears in the child of any kind of fork (MADV_WIPEONFORK). Without such
 * a page, returns the pid.
 */
static int get_memory_id(void) {
  static _Atomic(atomic_int *) page;
  atomic_int *id = atomic_load(&page), *none = NULL;
  struct timespec now;
  if (!id) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    id = map == MAP_FAILED ? NULL : map;
    if (id && madvise(id, size, MADV_WIPEONFORK) != 0) {
      munmap(id, size);
      id = NULL;
    }
    if (id && !atomic_compare_exchange_strong(&page, &none, id)) {
      munmap(id, size);
      id = none;
    }
  }
  if (!id) {
    return (int)getpid();
  }
  /* Not the pid: a later process may have the same pid, and this may be a vforked child. */
  shard_clock_read(CLOCK_MONOTONIC, &now);
  int empty = 0, fresh = (int)(((unsigned)now.tv_nsec * 2654435761U + (unsigned)getpid()) >> 1 | 1);
  return atomic_compare_exchange_strong(id, &empty, fresh) ? fresh : empty;
}

__attribute__((noinline)) int shard_once_wait(atomic_int *slot) {
  int saved = errno, me = get_memory_id();
  errno = saved;
  for (;;) {
    int state = atomic_load_explicit(slot, memory_order_acquire);
    if (state == SHARD_ONCE_READY) {
      return 1;
    }
    if (state != me && atomic_compare_exchange_strong(slot, &state, me)) {
      /* A thread that is cancelled in a slot would leave all others waiting. */
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
