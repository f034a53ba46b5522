/* SPDX-License-Identifier: MIT */
#include "interpose/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

struct shard_real shard_real_table;
static atomic_bool resolved;

static void resolve(void) {
  int saved = errno;
#define X(name) *(void **)&shard_real_table.name = dlsym(RTLD_NEXT, #name);
  SHARD_REAL_FUNCTIONS(X)
#undef X
#define X(name, version)                                                                           \
  *(void **)&shard_real_table.old_##name = dlvsym(RTLD_NEXT, #name, version);                      \
  if (!shard_real_table.old_##name) {                                                              \
    shard_real_table.old_##name = shard_real_table.name;                                           \
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
  return &shard_real_table;
}
