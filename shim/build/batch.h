/* SPDX-License-Identifier: MIT */
/*
 * batch.h - a block of memory that is filled with names, which are then sorted (shardctl only).
 *
 * Names fill the block from its front, each behind its inode and type if the batch keeps these.
 * Items of 16 bytes fill the block from its back. Nothing is allocated.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "listing/codec.h"

struct shard_batch_item {
  uint64_t key; /* eight bytes of the name as a number, while the items are sorted */
  uint32_t at;  /* the name's offset in the block */
  uint16_t length;
  uint16_t base; /* the basename's offset in the name; 0 in order PATH */
};

struct shard_batch {
  struct shard_batch *next; /* next and seq are the sorter's */
  uint64_t seq; /* the batch's number, in the order in which feeders handed the batches over */
  char *block;
  size_t size, used;
  struct shard_batch_item *items; /* see shard_batch_turn() */
  uint32_t count, most;
  uint32_t longest; /* bytes of the longest name */
  uint32_t order;
  bool attributes;
};

/*
 * Initialises a batch without names.
 * block: the caller's; aligned to 16 bytes, and at most 4 GB.
 * order: PATH or BASENAME of listing/codec.h.
 * attributes: whether the batch keeps inodes and types.
 */
void shard_batch_init(struct shard_batch *b, char *block, size_t size, uint32_t order,
                      bool attributes);

/* Removes all names from a batch. */
void shard_batch_clear(struct shard_batch *b);

/* Returns how many bytes of scratch shard_batch_sort() needs for a block of `size` bytes. */
static inline size_t shard_batch_scratch(size_t size) { return size / 2; }

/* Bytes of the inode and the type before a name. */
#define SHARD_BATCH_ATTRIBUTES 9

/*
 * Adds a copy of a name, with its inode and type if the batch keeps these.
 * Returns false if the batch is full; the batch is then as before.
 */
static inline bool shard_batch_add(struct shard_batch *b, const char *name, size_t length,
                                   uint64_t ino, uint8_t type) {
  size_t before = b->attributes ? SHARD_BATCH_ATTRIBUTES : 0;
  size_t room = (size_t)((char *)b->items - b->block) - b->used;
  if (room < before + length + 1 + sizeof(*b->items) || b->count == b->most) {
    return false;
  }
  char *to = b->block + b->used;
  if (b->attributes) {
    memcpy(to, &ino, sizeof(ino));
    memcpy(to + sizeof(ino), &type, sizeof(type));
  }
  memcpy(to + before, name, length);
  to[before + length] = 0;
  size_t base = b->order == SHARD_ORDER_PATH ? 0 : shard_codec_basename(name, length);
  *--b->items = (struct shard_batch_item){
      .at = (uint32_t)(b->used + before), .length = (uint16_t)length, .base = (uint16_t)base};
  b->used += before + length + 1;
  b->count++;
  b->longest = length > b->longest ? (uint32_t)length : b->longest;
  return true;
}

/*
 * Turns the items into the order in which the names were added; before, items[0] is the name that
 * was added last. Called once, before shard_batch_in_order() and shard_batch_sort().
 */
void shard_batch_turn(struct shard_batch *b);

/* Returns whether the names were added in the batch's order. */
bool shard_batch_in_order(const struct shard_batch *b);

/*
 * Sorts the items by name; equal names stay in the order in which they were added.
 * scratch: shard_batch_scratch() bytes, aligned to 16.
 */
void shard_batch_sort(struct shard_batch *b, void *scratch);

/* Returns the name of an item, a part of the block that ends with NUL. */
static inline const char *shard_batch_name(const struct shard_batch *b,
                                           const struct shard_batch_item *item) {
  return b->block + item->at;
}

/* Gives the inode and the type of an item; 0 and 0 if the batch does not keep these. */
static inline void shard_batch_attributes(const struct shard_batch *b,
                                          const struct shard_batch_item *item, uint64_t *ino,
                                          uint8_t *type) {
  *ino = 0;
  *type = 0;
  if (b->attributes) {
    memcpy(ino, b->block + item->at - SHARD_BATCH_ATTRIBUTES, sizeof(*ino));
    memcpy(type, b->block + item->at - 1, sizeof(*type));
  }
}

/*
 * Returns the eight bytes of name[length] from offset `from` on as a big-endian number. Bytes past
 * the name's end count as zeros.
 */
static inline uint64_t shard_batch_key(const char *name, size_t length, size_t from) {
  uint64_t key = 0;
  if (__builtin_expect(from + sizeof(key) <= length, 1)) {
    memcpy(&key, name + from, sizeof(key));
  } else if (from < length) {
    memcpy(&key, name + from, length - from);
  }
  return __builtin_bswap64(key);
}
