/* SPDX-License-Identifier: MIT */
/*
 * batch.h - a block of memory filled with names, and sorted (shardctl only).
 *
 * Names grow from the front of the block, each behind its inode and type if these are kept, items
 * of 16 bytes from its back. One thread at a time.
 */
#ifndef SHARD_BATCH_H
#define SHARD_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_item {
  uint64_t key; /* eight bytes of the name, as a number; used while sorting */
  uint32_t at;  /* the name, from the front of the block */
  uint16_t length;
  uint16_t base; /* where in the name the order looks first: the basename, or 0 */
};

struct shard_batch {
  struct shard_batch *next;
  char *block;
  size_t size, used;
  struct shard_item *items; /* the last one added comes first; once sorted, in order */
  uint32_t count;
  uint32_t order;
  bool attributes;
};

/* A batch with a block of `size` bytes, at most 4 GB. NULL: no memory. */
struct shard_batch *shard_batch_new(size_t size, uint32_t order, bool attributes);
void shard_batch_free(struct shard_batch *b);
void shard_batch_clear(struct shard_batch *b);

/* Copy a name in. false: it does not fit any more. */
bool shard_batch_add(struct shard_batch *b, const char *name, size_t length, uint64_t ino,
                     uint8_t type);

/* Bring the items into the order of the names; equal names stay in the order they were added. */
int shard_batch_sort(struct shard_batch *b);

const char *shard_batch_name(const struct shard_batch *b, const struct shard_item *item);
void shard_batch_attributes(const struct shard_batch *b, const struct shard_item *item,
                            uint64_t *ino, uint8_t *type);

/* Eight bytes of name[length] from `from` on, big-endian, zeros after its end. */
uint64_t shard_batch_key(const char *name, size_t length, size_t from);

#endif
