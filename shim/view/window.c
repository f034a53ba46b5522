/* SPDX-License-Identifier: MIT */
#include "view/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shard/permute.h"

struct shard_window {
  uint64_t random, taken;
  size_t size, held, room;
  bool ended;
  struct dirent64 *entries;
  struct dirent64 out;
};

struct shard_window *shard_window_new(uint64_t seed, size_t size) {
  struct shard_window *w = calloc(1, sizeof(*w));
  if (w) {
    w->random = seed;
    w->size = size;
  }
  return w;
}

void shard_window_free(struct shard_window *w) {
  if (w) {
    free(w->entries);
    free(w);
  }
}

void shard_window_reset(struct shard_window *w, uint64_t seed) {
  w->random = seed;
  w->taken = w->held = 0;
  w->ended = false;
}

bool shard_window_wants(const struct shard_window *w) { return !w->ended && w->held < w->size; }

int shard_window_put(struct shard_window *w, const struct dirent64 *entry) {
  if (!entry) {
    w->ended = true;
    return 0;
  }
  if (w->held == w->room) {
    size_t room = w->room ? w->room * 2 : 16;
    struct dirent64 *more = realloc(w->entries, room * sizeof(*more));
    if (!more) {
      return -ENOMEM;
    }
    w->entries = more;
    w->room = room;
  }
  memcpy(&w->entries[w->held++], entry, entry->d_reclen);
  return 0;
}

struct dirent64 *shard_window_take(struct shard_window *w) {
  if (w->held == 0) {
    return NULL;
  }
  size_t k = shard_random(&w->random) % w->held;
  memcpy(&w->out, &w->entries[k], w->entries[k].d_reclen);
  w->entries[k] = w->entries[--w->held];
  w->out.d_off = (off_t)++w->taken;
  return &w->out;
}

uint64_t shard_window_taken(const struct shard_window *w) { return w->taken; }
