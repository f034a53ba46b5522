/* SPDX-License-Identifier: MIT */
#include "base/workspace.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

/* An open() that is counted holds up to three workspaces while the file system answers; three
 * mappings would cost ten times as much as the open() itself. 64 blocks suffice for twenty threads.
 * A block that was never used takes no memory. */
#define COUNT 64

static char pool[COUNT][SHARD_WORKSPACE_SIZE] __attribute__((aligned(64)));
static atomic_bool taken[COUNT];

char *shard_workspace_take(struct shard_workspace *w, size_t size) {
  w->slot = NULL;
  w->size = size;
  for (size_t i = 0; i < COUNT && size <= SHARD_WORKSPACE_SIZE; i++) {
    if (!atomic_load_explicit(&taken[i], memory_order_relaxed) &&
        !atomic_exchange(&taken[i], true)) {
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
    atomic_store((atomic_bool *)w->slot, false);
    return;
  }
  int saved = errno;
  munmap(w->at, w->size);
  errno = saved;
}
