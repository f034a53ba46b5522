/* SPDX-License-Identifier: MIT */
/*
 * handles.h - what we know about a pointer that a wrapper has handed out (a DIR, an FTS).
 *
 * Lock-free, so that a fork in the middle of anything leaves a table whole: slots are claimed by
 * compare-and-swap, a lookup is made only by a caller that holds the handle open, and a slot is
 * emptied before the real close, after which the address may be used again. While a table is
 * empty a lookup costs one load.
 */
#ifndef SHARD_INTERPOSE_HANDLES_H
#define SHARD_INTERPOSE_HANDLES_H

#include <stdatomic.h>
#include <stddef.h>

#define SHARD_HANDLES_SLOTS 256

struct shard_handle {
  _Atomic(const void *) key;
  void *value; /* written before key is */
};

struct shard_handles {
  atomic_int used; /* how many keys; 0 is as good as a look */
  struct shard_handle slots[SHARD_HANDLES_SLOTS];
  _Atomic(struct shard_handles *) next; /* from calloc; never freed */
};

/* Remember value for key, which is not in the table. 0 or -ENOMEM. */
int shard_handles_insert(struct shard_handles *table, const void *key, void *value);

/* The value, or NULL. */
void *shard_handles_find(struct shard_handles *table, const void *key);

/* Forget key. Its value, or NULL. */
void *shard_handles_remove(struct shard_handles *table, const void *key);

#endif
