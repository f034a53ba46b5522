/* SPDX-License-Identifier: MIT */
#include "view/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "shard/permute.h"

struct shard_window {
  uint64_t random, taken;
  size_t size, held, room;
  bool ended;
  struct dirent64 **entries; /* a bucket's keys, and names of some file systems, are longer than
                                struct dirent64 has room for */
  struct dirent64 out;       /* complete, because a caller may copy all of its struct */
  struct dirent64 *longer;
};

struct shard_window *shard_window_new(uint64_t seed, size_t size) {
  struct shard_window *w = calloc(1, sizeof(*w));
  if (w) {
    w->random = seed;
    w->size = size;
  }
  return w;
}

static void drop_entries(struct shard_window *w) {
  while (w->held > 0) {
    free(w->entries[--w->held]);
  }
}

void shard_window_free(struct shard_window *w) {
  if (w) {
    drop_entries(w);
    free(w->entries);
    free(w->longer);
    free(w);
  }
}

void shard_window_reset(struct shard_window *w, uint64_t seed) {
  drop_entries(w);
  w->random = seed;
  w->taken = 0;
  w->ended = false;
}

bool shard_window_wants(const struct shard_window *w) { return !w->ended && w->held < w->size; }

int shard_window_put(struct shard_window *w, const struct dirent64 *entry) {
  if (!entry) {
    w->ended = true;
    return 0;
  }
  struct dirent64 **entries =
      shard_array_grow(w->entries, w->held, 1, &w->room, sizeof(struct dirent64 *));
  struct dirent64 *copy = malloc(entry->d_reclen);
  w->entries = entries ? entries : w->entries;
  if (!entries || !copy) {
    free(copy);
    return -ENOMEM;
  }
  w->entries[w->held++] = memcpy(copy, entry, entry->d_reclen);
  return 0;
}

struct dirent64 *shard_window_take(struct shard_window *w) {
  if (w->held == 0) {
    return NULL;
  }
  size_t k = shard_random(&w->random) % w->held;
  struct dirent64 *entry = w->entries[k], *out = &w->out;
  w->entries[k] = w->entries[--w->held];
  free(w->longer);
  w->longer = NULL;
  if (entry->d_reclen <= sizeof(*out)) {
    memcpy(out, entry, entry->d_reclen);
    free(entry);
  } else {
    out = w->longer = entry;
  }
  out->d_off = (off_t)++w->taken;
  return out;
}

uint64_t shard_window_taken(const struct shard_window *w) { return w->taken; }
