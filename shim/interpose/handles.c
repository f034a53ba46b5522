/* SPDX-License-Identifier: MIT */
#include "interpose/handles.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* The keys of slots whose handle was removed, or is being added. */
static const char slot_states[2];
#define TOMBSTONE ((const void *)&slot_states[0])
#define RESERVED ((const void *)&slot_states[1])

static size_t hash_key(const void *key) {
  return ((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15ULL >> 56;
}

static struct shard_handle *find_handle(struct shard_handles *table, const void *key) {
  if (atomic_load_explicit(&table->used, memory_order_acquire) == 0 || !key) {
    return NULL;
  }
  for (struct shard_handles *t = table; t; t = atomic_load(&t->next)) {
    for (size_t i = hash_key(key), n = 0; n < SHARD_HANDLES_SLOTS;
         i = (i + 1) % SHARD_HANDLES_SLOTS, n++) {
      const void *k = atomic_load_explicit(&t->slots[i].key, memory_order_acquire);
      if (k == key) {
        return &t->slots[i];
      }
      if (!k) {
        break;
      }
    }
  }
  return NULL;
}

int shard_handles_insert(struct shard_handles *table, const void *key, void *value) {
  for (struct shard_handles *t = table;;) {
    for (size_t i = hash_key(key), n = 0; n < SHARD_HANDLES_SLOTS;
         i = (i + 1) % SHARD_HANDLES_SLOTS, n++) {
      const void *k = atomic_load(&t->slots[i].key);
      if ((!k || k == TOMBSTONE) &&
          atomic_compare_exchange_strong(&t->slots[i].key, &k, RESERVED)) {
        t->slots[i].value = value;
        atomic_fetch_add(&table->used, 1);
        atomic_store_explicit(&t->slots[i].key, key, memory_order_release);
        return 0;
      }
    }
    struct shard_handles *next = atomic_load(&t->next);
    if (!next) {
      struct shard_handles *fresh = calloc(1, sizeof(*fresh));
      if (!fresh) {
        return -ENOMEM;
      }
      if (atomic_compare_exchange_strong(&t->next, &next, fresh)) {
        next = fresh;
      } else {
        free(fresh);
      }
    }
    t = next;
  }
}

void *shard_handles_find(struct shard_handles *table, const void *key) {
  const struct shard_handle *slot = find_handle(table, key);
  return slot ? slot->value : NULL;
}

void *shard_handles_remove(struct shard_handles *table, const void *key) {
  struct shard_handle *slot = find_handle(table, key);
  if (!slot) {
    return NULL;
  }
  void *value = slot->value;
  atomic_store_explicit(&slot->key, TOMBSTONE, memory_order_release);
  atomic_fetch_sub(&table->used, 1);
  return value;
}
