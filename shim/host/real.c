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
 * Fills the table. Each early thread looks up all functions for itself and waits for no other
 * thread, because a lookup may call a wrapper. The first thread that is done writes the table; the
 * others wait only while it copies the table.
 */
static void resolve(void) {
  int saved = errno, expected = UNRESOLVED;
  struct shard_real found;
#define CALL(name, kind) *(void **)&found.name = dlsym(RTLD_NEXT, #name);
#include "host/exports.def"
/* Before glibc 2.36, dlsym(RTLD_NEXT) finds the oldest version of a function, not the default. */
#define VERSIONS(name, old, new)                                                                   \
  *(void **)&found.old_##name = dlvsym(RTLD_NEXT, #name, old);                                     \
  if (!found.old_##name) {                                                                         \
    found.old_##name = found.name;                                                                 \
  }                                                                                                \
  void *default_##name = dlvsym(RTLD_NEXT, #name, new);                                            \
  if (default_##name) {                                                                            \
    *(void **)&found.name = default_##name;                                                        \
  }
#include "host/exports.def"
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
