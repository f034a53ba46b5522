/* SPDX-License-Identifier: MIT */
#include "host/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

struct shard_real shard_real_table;

enum { UNRESOLVED, WRITING, RESOLVED };
static atomic_int state;

/*
 * Every thread that comes early resolves for itself, since a lookup may call back into a wrapper;
 * the first to have done so writes the table. The others wait for a copy of some words only.
 */
static void resolve(void) {
  int saved = errno, expected = UNRESOLVED;
  struct shard_real found;
#define X(name) *(void **)&found.name = dlsym(RTLD_NEXT, #name);
  SHARD_REAL_FUNCTIONS(X)
#undef X
#define X(name, version)                                                                           \
  *(void **)&found.old_##name = dlvsym(RTLD_NEXT, #name, version);                                 \
  if (!found.old_##name) {                                                                         \
    found.old_##name = found.name;                                                                 \
  }
  SHARD_OLD_FUNCTIONS(X)
#undef X
  if (atomic_compare_exchange_strong(&state, &expected, WRITING)) {
    shard_real_table = found;
    atomic_store_explicit(&state, RESOLVED, memory_order_release);
  }
  while (atomic_load_explicit(&state, memory_order_acquire) != RESOLVED) {
    sched_yield();
  }
  errno = saved;
}

const struct shard_real *shard_real(void) {
  if (atomic_load_explicit(&state, memory_order_acquire) != RESOLVED) {
    resolve();
  }
  return &shard_real_table;
}
