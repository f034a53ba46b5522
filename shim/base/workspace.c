/* SPDX-License-Identifier: MIT */
#include "base/workspace.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define COUNT 16

static char pool[COUNT][SHARD_WORKSPACE_SIZE] __attribute__((aligned(64)));
static atomic_flag taken[COUNT];

char *shard_workspace_take(struct shard_workspace *w, size_t size) {
  w->slot = NULL;
  w->size = size;
  for (size_t i = 0; i < COUNT && size <= SHARD_WORKSPACE_SIZE; i++) {
    if (!atomic_flag_test_and_set(&taken[i])) {
      w->slot = &taken[i];
      return w->at = pool[i];
    }
  }
  int saved = errno;
  void *mapping = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  errno = saved;
  return w->at = mapping == MAP_FAILED ? NULL : mapping;
}

void shard_workspace_end(struct shard_workspace *w) {
  if (w->slot) {
    atomic_flag_clear((atomic_flag *)w->slot);
    return;
  }
  int saved = errno;
  munmap(w->at, w->size);
  errno = saved;
}
