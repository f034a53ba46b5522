/* SPDX-License-Identifier: MIT */
#include "interpose/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

static struct shard_real table;
static atomic_bool resolved;

static void resolve(void) {
  int saved = errno;
#define X(name) *(void **)&table.name = dlsym(RTLD_NEXT, #name);
  SHARD_REAL_FUNCTIONS(X)
#undef X
#define X(name, version)                                                                           \
  *(void **)&table.old_##name = dlvsym(RTLD_NEXT, #name, version);                                 \
  if (!table.old_##name) {                                                                         \
    table.old_##name = table.name;                                                                 \
  }
  SHARD_OLD_FUNCTIONS(X)
#undef X
  atomic_store_explicit(&resolved, true, memory_order_release);
  errno = saved;
}

const struct shard_real *shard_real(void) {
  if (!atomic_load_explicit(&resolved, memory_order_acquire)) {
    resolve();
  }
  return &table;
}
