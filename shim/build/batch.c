/* SPDX-License-Identifier: MIT */
/*
 * batch.c - sorting a block of names.
 *
 * Eight bytes at a time: the bytes behind the prefix that all names of a range share become a
 * number, the key. Keys are sorted by least-significant-digit radix, without the bytes in which all
 * are alike. Ranges of equal keys are sorted again by the bytes that follow. (LSD radix: Knuth,
 * TAOCP 3, 5.2.5.)
 */
#include "build/batch.h"

#define FEW 24 /* so many items or fewer are sorted by insertion */

void shard_batch_init(struct shard_batch *b, char *block, size_t size, uint32_t order,
                      bool attributes) {
  *b = (struct shard_batch){.block = block,
                            .size = size & ~(sizeof(struct shard_batch_item) - 1),
                            .order = order,
                            .attributes = attributes};
  b->most = (uint32_t)(shard_batch_scratch(size) / sizeof(struct shard_batch_item));
  shard_batch_clear(b);
}

void shard_batch_clear(struct shard_batch *b) {
  b->used = 0;
  b->count = 0;
  b->longest = 0;
  b->next = NULL;
  b->items = (struct shard_batch_item *)(b->block + b->size);
}

/* The part of a name that is compared now: what the order compares first, or (order BASENAME, equal
 * basenames) the whole name. */
struct compared {
  const char *name;
  size_t length;
};

static inline struct compared get_compared(const struct shard_batch *b,
                                           const struct shard_batch_item *item, bool whole) {
  size_t from = whole ? 0 : item->base;
  return (struct compared){b->block + item->at + from, item->length - from};
}

static int compare_items(const struct shard_batch *b, const struct shard_batch_item *x,
                         const struct shard_batch_item *y) {
  return shard_codec_compare_names(b->order, b->block + x->at, x->length, b->block + y->at,
                                   y->length);
}

static void sort_few(const struct shard_batch *b, struct shard_batch_item *items, size_t n) {
  for (size_t i = 1; i < n; i++) {
    struct shard_batch_item item = items[i];
    size_t k = i;
    for (; k > 0 && compare_items(b, &items[k - 1], &item) > 0; k--) {
      items[k] = items[k - 1];
    }
    items[k] = item;
  }
}

/* How many bytes from `depth` on all names of a range share. */
static size_t measure_common(const struct shard_batch *b, const struct shard_batch_item *items,
                             size_t n, bool whole, size_t depth) {
  struct compared first = get_compared(b, &items[0], whole);
  size_t most = first.length - depth;
  for (size_t i = 1; i < n && most > 0; i++) {
    struct compared v = get_compared(b, &items[i], whole);
    size_t least = v.length - depth < most ? v.length - depth : most;
    if (least != most || memcmp(v.name + depth, first.name + depth, least) != 0) {
      size_t k = 0;
      while (k < least && v.name[depth + k] == first.name[depth + k]) {
        k++;
      }
      most = k;
    }
  }
  return most;
}

/* Sort by key. bits: those in which the keys differ. */
__attribute__((noinline)) static void sort_by_key(struct shard_batch_item *items,
                                                  struct shard_batch_item *scratch, size_t n,
                                                  uint64_t bits) {
  struct shard_batch_item *from = items, *to = scratch;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    if (!(bits >> shift & 255)) {
      continue; /* all have the same byte there */
    }
    uint32_t places[256] = {0}, at = 0;
    for (size_t i = 0; i < n; i++) {
      places[from[i].key >> shift & 255]++;
    }
    for (size_t v = 0; v < 256; v++) {
      uint32_t count = places[v];
      places[v] = at;
      at += count;
    }
    for (size_t i = 0; i < n; i++) {
      to[places[from[i].key >> shift & 255]++] = from[i];
    }
    struct shard_batch_item *swap = from;
    from = to;
    to = swap;
  }
  if (from != items) {
    memcpy(items, from, n * sizeof(*items));
  }
}

/*
 * Sort a range whose names agree in their first `depth` bytes. whole: compare whole names, as the
 * basenames are equal.
 */
static void sort_range(const struct shard_batch *b, struct shard_batch_item *items,
                       struct shard_batch_item *scratch, size_t n, bool whole, size_t depth) {
  if (n <= FEW) {
    sort_few(b, items, n);
    return;
  }
  depth += measure_common(b, items, n, whole, depth);
  uint64_t bits = 0;
  bool sorted = true;
  for (size_t i = 0; i < n; i++) {
    struct compared v = get_compared(b, &items[i], whole);
    items[i].key = shard_batch_key(v.name, v.length, depth);
    bits |= items[i].key ^ items[0].key;
    sorted = sorted && (i == 0 || items[i - 1].key <= items[i].key);
  }
  if (!sorted) {
    sort_by_key(items, scratch, n, bits);
  }
  for (size_t i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && items[end].key == items[i].key; end++) {
    }
    if (end - i < 2) {
      continue;
    }
    /* If the key ends with a zero byte, so did the names: no name has one inside. */
    if (items[i].key & 255) {
      sort_range(b, items + i, scratch, end - i, whole, depth + 8);
    } else if (!whole && b->order == SHARD_ORDER_BASENAME) {
      sort_range(b, items + i, scratch, end - i, true, 0);
    }
  }
}

void shard_batch_turn(struct shard_batch *b) {
  for (uint32_t i = 0, k = b->count; i + 1 < k; i++, k--) {
    struct shard_batch_item swap = b->items[i];
    b->items[i] = b->items[k - 1];
    b->items[k - 1] = swap;
  }
}

bool shard_batch_in_order(const struct shard_batch *b) {
  for (uint32_t i = 1; i < b->count; i++) {
    if (compare_items(b, &b->items[i - 1], &b->items[i]) > 0) {
      return false;
    }
  }
  return true;
}

void shard_batch_sort(struct shard_batch *b, void *scratch) {
  sort_range(b, b->items, scratch, b->count, false, 0);
}
