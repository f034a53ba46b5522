/* SPDX-License-Identifier: MIT */
/*
 * batch.c - sorting a block of names.
 *
 * Eight bytes at a time: the bytes after the prefix that all names of a range share become a
 * number; numbers are sorted by least-significant-digit radix, leaving out digits that are all
 * alike; ranges of equal numbers are sorted again by what follows. Names of a dataset differ in few
 * bytes, so there are few passes. (LSD radix: Knuth, TAOCP 3, 5.2.5.)
 */
#include "listing/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "listing/codec.h"

#define ATTRIBUTES 9 /* bytes before a name: inode, type */
#define FEW 24       /* items that are sorted by insertion */

#define HUGE_PAGE ((size_t)2 << 20)

struct shard_batch *shard_batch_new(size_t size, uint32_t order, bool attributes) {
  struct shard_batch *b = calloc(1, sizeof(*b));
  if (b && !(b->block = size < HUGE_PAGE ? malloc(size) : aligned_alloc(HUGE_PAGE, size))) {
    free(b);
    b = NULL;
  }
  if (b) {
    if (size >= HUGE_PAGE) {
      madvise(b->block, size, MADV_HUGEPAGE); /* it will all be filled; spares page faults */
    }
    b->size = size & ~(sizeof(struct shard_item) - 1);
    b->order = order;
    b->attributes = attributes;
    shard_batch_clear(b);
  }
  return b;
}

void shard_batch_free(struct shard_batch *b) {
  if (b) {
    free(b->block);
    free(b);
  }
}

void shard_batch_clear(struct shard_batch *b) {
  b->used = 0;
  b->count = 0;
  b->next = NULL;
  b->items = (struct shard_item *)(b->block + b->size);
}

bool shard_batch_add(struct shard_batch *b, const char *name, size_t length, uint64_t ino,
                     uint8_t type) {
  size_t before = b->attributes ? ATTRIBUTES : 0;
  size_t room = b->size - b->used - b->count * sizeof(*b->items);
  if (room < before + length + 1 + sizeof(*b->items)) {
    return false;
  }
  char *to = b->block + b->used;
  if (b->attributes) {
    memcpy(to, &ino, sizeof(ino));
    memcpy(to + sizeof(ino), &type, sizeof(type));
  }
  memcpy(to + before, name, length);
  to[before + length] = 0;
  size_t base = b->order == SHARD_ORDER_BASENAME ? shard_basename(name, length) : 0;
  *--b->items = (struct shard_item){
      .at = (uint32_t)(b->used + before), .length = (uint16_t)length, .base = (uint16_t)base};
  b->used += before + length + 1;
  b->count++;
  return true;
}

const char *shard_batch_name(const struct shard_batch *b, const struct shard_item *item) {
  return b->block + item->at;
}

void shard_batch_attributes(const struct shard_batch *b, const struct shard_item *item,
                            uint64_t *ino, uint8_t *type) {
  *ino = 0;
  *type = 0;
  if (b->attributes) {
    memcpy(ino, b->block + item->at - ATTRIBUTES, sizeof(*ino));
    memcpy(type, b->block + item->at - 1, sizeof(*type));
  }
}

uint64_t shard_batch_key(const char *name, size_t length, size_t from) {
  uint64_t key = 0;
  if (from + sizeof(key) <= length) {
    memcpy(&key, name + from, sizeof(key));
  } else if (from < length) {
    memcpy(&key, name + from, length - from);
  }
  return __builtin_bswap64(key);
}

/* What the order compares first, and what it compares then: the whole name. */
struct view {
  const char *name;
  size_t length;
};

static struct view seen(const struct shard_batch *b, const struct shard_item *item, bool whole) {
  size_t from = whole ? 0 : item->base;
  return (struct view){b->block + item->at + from, item->length - from};
}

static int compare(const struct shard_batch *b, const struct shard_item *x,
                   const struct shard_item *y) {
  return shard_compare_names(b->order, b->block + x->at, x->length, b->block + y->at, y->length);
}

static void sort_few(const struct shard_batch *b, struct shard_item *items, size_t n) {
  for (size_t i = 1; i < n; i++) {
    struct shard_item item = items[i];
    size_t k = i;
    for (; k > 0 && compare(b, &items[k - 1], &item) > 0; k--) {
      items[k] = items[k - 1];
    }
    items[k] = item;
  }
}

/* Bytes from `depth` on that all names of a range share. */
static size_t common(const struct shard_batch *b, const struct shard_item *items, size_t n,
                     bool whole, size_t depth) {
  struct view first = seen(b, &items[0], whole);
  size_t most = first.length - depth;
  for (size_t i = 1; i < n && most > 0; i++) {
    struct view v = seen(b, &items[i], whole);
    size_t least = v.length - depth < most ? v.length - depth : most, k = 0;
    while (k < least && v.name[depth + k] == first.name[depth + k]) {
      k++;
    }
    most = k;
  }
  return most;
}

__attribute__((noinline)) static void radix(struct shard_item *items, struct shard_item *scratch,
                                            size_t n) {
  static const size_t digits = 8;
  uint32_t counts[8][256];
  memset(counts, 0, sizeof(counts));
  for (size_t i = 0; i < n; i++) {
    for (size_t d = 0; d < digits; d++) {
      counts[d][items[i].key >> (8 * d) & 255]++;
    }
  }
  struct shard_item *from = items, *to = scratch;
  for (size_t d = 0; d < digits; d++) {
    if (counts[d][from[0].key >> (8 * d) & 255] == n) {
      continue;
    }
    uint32_t at = 0;
    for (size_t v = 0; v < 256; v++) {
      uint32_t count = counts[d][v];
      counts[d][v] = at;
      at += count;
    }
    for (size_t i = 0; i < n; i++) {
      to[counts[d][from[i].key >> (8 * d) & 255]++] = from[i];
    }
    struct shard_item *swap = from;
    from = to;
    to = swap;
  }
  if (from != items) {
    memcpy(items, from, n * sizeof(*items));
  }
}

/*
 * Sort a range whose names agree in their first `depth` bytes. `whole`: these are bytes of the
 * whole name, the basenames being equal.
 */
static void sort_range(const struct shard_batch *b, struct shard_item *items,
                       struct shard_item *scratch, size_t n, bool whole, size_t depth) {
  if (n <= FEW) {
    sort_few(b, items, n);
    return;
  }
  depth += common(b, items, n, whole, depth);
  bool sorted = true;
  for (size_t i = 0; i < n; i++) {
    struct view v = seen(b, &items[i], whole);
    items[i].key = shard_batch_key(v.name, v.length, depth);
    sorted = sorted && (i == 0 || items[i - 1].key <= items[i].key);
  }
  if (!sorted) {
    radix(items, scratch, n);
  }
  for (size_t i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && items[end].key == items[i].key; end++) {
    }
    if (end - i < 2) {
      continue;
    }
    /* A zero at the end of the key: the names are at their end, for none has a zero within. */
    if (items[i].key & 255) {
      sort_range(b, items + i, scratch, end - i, whole, depth + 8);
    } else if (!whole && b->order == SHARD_ORDER_BASENAME) {
      sort_range(b, items + i, scratch, end - i, true, 0);
    }
  }
}

int shard_batch_sort(struct shard_batch *b) {
  bool sorted = true;
  for (uint32_t i = 0, k = b->count; i + 1 < k; i++, k--) {
    struct shard_item swap = b->items[i];
    b->items[i] = b->items[k - 1];
    b->items[k - 1] = swap;
  }
  for (uint32_t i = 1; i < b->count && sorted; i++) {
    sorted = compare(b, &b->items[i - 1], &b->items[i]) <= 0;
  }
  if (sorted) {
    return 0;
  }
  struct shard_item *scratch = malloc(b->count * sizeof(*scratch));
  if (!scratch) {
    return -ENOMEM;
  }
  sort_range(b, b->items, scratch, b->count, false, 0);
  free(scratch);
  return 0;
}
