/* SPDX-License-Identifier: MIT */
/*
 * batch.h - a block of memory filled with names, and sorted (shardctl only).
 *
 * Names fill the block from its front, each behind its inode and type if these are kept; items of
 * 16 bytes fill it from its back. Nothing is allocated. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "listing/codec.h"

struct shard_batch_item {
  uint64_t key; /* eight bytes of the name, as a number; for sorting */
  uint32_t at;  /* the name's offset in the block */
  uint16_t length;
  uint16_t base; /* the basename's offset in the name, in order BASENAME; else 0 */
};

struct shard_batch {
  struct shard_batch *next; /* this and seq are the sorter's */
  uint64_t seq;             /* the batch's number, in the order they were filled */
  char *block;
  size_t size, used;
  struct shard_batch_item *items; /* the last added first; after shard_batch_turn() the first */
  uint32_t count, most;
  uint32_t longest; /* bytes of the longest name */
  uint32_t order;
  bool attributes;
};

/* Make a batch of a block, which is the caller's, aligned to 16 bytes and at most 4 GB. */
void shard_batch_init(struct shard_batch *b, char *block, size_t size, uint32_t order,
                      bool attributes);

/* Forget the names. */
void shard_batch_clear(struct shard_batch *b);

/* Bytes of scratch that shard_batch_sort() needs for a block of `size` bytes. */
static inline size_t shard_batch_scratch(size_t size) { return size / 2; }

/* Bytes of the inode and type before a name. */
#define SHARD_BATCH_ATTRIBUTES 9

/* Add a copy of a name. false if the batch is full. */
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

/* Turn the items into the order in which they came. Once, before the next two functions. */
void shard_batch_turn(struct shard_batch *b);

/* Whether the names came in order. */
bool shard_batch_in_order(const struct shard_batch *b);

/* Sort the items by name; equal names stay in the order they came. */
void shard_batch_sort(struct shard_batch *b, void *scratch);

/* An item's name, NUL-terminated, in the block. */
static inline const char *shard_batch_name(const struct shard_batch *b,
                                           const struct shard_batch_item *item) {
  return b->block + item->at;
}

/* An item's inode and type; 0 if they are not kept. */
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

/* Eight bytes of name[length] from `from` on as a big-endian number, with zeros behind its end. */
static inline uint64_t shard_batch_key(const char *name, size_t length, size_t from) {
  uint64_t key = 0;
  if (__builtin_expect(from + sizeof(key) <= length, 1)) {
    memcpy(&key, name + from, sizeof(key));
  } else if (from < length) {
    memcpy(&key, name + from, length - from);
  }
  return __builtin_bswap64(key);
}
