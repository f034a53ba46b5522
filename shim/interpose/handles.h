/* SPDX-License-Identifier: MIT */
/*
 * handles.h - a table of what we know about pointers that a wrapper has handed out (DIR, FTS).
 *
 * The table has no lock, so a fork at any moment leaves it whole: a slot is claimed by
 * compare-and-swap. A caller looks up only a handle that it holds open, and removes it before the
 * real close, after which libc may use the address again. While a table is empty a lookup costs one
 * load. Any thread may call any function.
 */
#pragma once

#include <stdatomic.h>

#define SHARD_HANDLES_SLOTS 256

struct shard_handle {
  _Atomic(const void *) key;
  void *value; /* written before key is */
};

struct shard_handles {
  atomic_int used; /* how many keys; 0: there is nothing to find */
  struct shard_handle slots[SHARD_HANDLES_SLOTS];
  _Atomic(struct shard_handles *) next; /* from calloc; never freed */
};

/* Remember value for key, which is not in the table. 0 or -ENOMEM. */
int shard_handles_insert(struct shard_handles *table, const void *key, void *value);

/* The value, or NULL. */
void *shard_handles_find(struct shard_handles *table, const void *key);

/* Forget key. Its value, or NULL. */
void *shard_handles_remove(struct shard_handles *table, const void *key);
