/* SPDX-License-Identifier: MIT */
/*
 * handles.h - a table from pointers that a wrapper has handed out (DIR, FTS) to libshard's data.
 *
 * The table has no lock, so it is intact in a child whenever a process forks: compare-and-swap
 * claims a slot. A caller looks up only a handle that it holds open, and removes the handle before
 * the real close, after which libc may use the address again. A lookup in an empty table costs one
 * load.
 */
#pragma once

#include <stdatomic.h>

#define SHARD_HANDLES_SLOTS 256

struct shard_handle {
  _Atomic(const void *) key;
  void *value; /* written before key */
};

struct shard_handles {
  atomic_int used; /* keys in the table; 0: a lookup is skipped */
  struct shard_handle slots[SHARD_HANDLES_SLOTS];
  _Atomic(struct shard_handles *) next; /* from calloc; never freed */
};

/* Adds a key that the table does not have. Errors: -ENOMEM. */
int shard_handles_insert(struct shard_handles *table, const void *key, void *value);

/* Returns a key's value; NULL if the table does not have the key. */
void *shard_handles_find(struct shard_handles *table, const void *key);

/* Removes a key. Returns its value; NULL if the table does not have the key. */
void *shard_handles_remove(struct shard_handles *table, const void *key);
