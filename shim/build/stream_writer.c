/* SPDX-License-Identifier: MIT */
/*
 * stream_writer.c - sorts names in memory, a part at a time. The more names are published, the
 * larger a part is: so the first part comes at once, and a billion names make some hundreds.
 */
#include "build/stream_writer.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/grow.h"
#include "base/whole.h"
#include "base/xxh64.h"
#include "build/spool.h"
#include "build/writer.h"
#include "libshard.h"
#include "listing/codec.h"

#define PART_BYTES ((size_t)16 << 20) /* of names */
#define PART_SHARE 8                  /* a part has at least an eighth of the names before it */

struct part_item {
  size_t at; /* in text */
  uint32_t length;
  bool directory;
};

/* The directories of all parts, each by two hashes: 128 bits distinguish a billion of them. */
struct directory_set {
  uint64_t (*slots)[2];
  size_t room, count; /* room: a power of two */
};

struct shard_stream_writer {
  const char *base, *source, *options;
  char *text;
  size_t text_used, text_room;
  struct part_item *items;
  size_t count, room, names; /* names: items that are no directories */
  struct directory_set known;
  uint64_t visible, parts;
  char last[SHARD_NAME_MAX]; /* the directory of the last name */
  size_t last_length;
};

int shard_stream_writer_open(const char *base, const char *source, const char *options,
                             struct shard_stream_writer **out) {
  *out = calloc(1, sizeof(**out));
  if (!*out) {
    return -ENOMEM;
  }
  (*out)->base = base;
  (*out)->source = source;
  (*out)->options = options;
  return 0;
}

void shard_stream_writer_free(struct shard_stream_writer *p) {
  if (p) {
    free(p->text);
    free(p->items);
    free(p->known.slots);
    free(p);
  }
}

uint64_t shard_stream_writer_count(const struct shard_stream_writer *p) { return p->parts; }

/* ---- directories -------------------------------------------------------- */

/* The slot that has the hash, or would have it. */
static size_t find_slot(const struct directory_set *k, const uint64_t hash[2]) {
  size_t i = hash[0] & (k->room - 1);
  while ((k->slots[i][0] || k->slots[i][1]) &&
         (k->slots[i][0] != hash[0] || k->slots[i][1] != hash[1])) {
    i = (i + 1) & (k->room - 1);
  }
  return i;
}

static int grow_set(struct directory_set *k) {
  struct directory_set more = {.room = k->room ? 2 * k->room : 1024};
  more.slots = calloc(more.room, sizeof(*more.slots));
  if (!more.slots) {
    return -ENOMEM;
  }
  for (size_t i = 0; i < k->room; i++) {
    if (k->slots[i][0] || k->slots[i][1]) {
      memcpy(more.slots[find_slot(&more, k->slots[i])], k->slots[i], sizeof(*k->slots));
    }
  }
  more.count = k->count;
  free(k->slots);
  *k = more;
  return 0;
}

/* Add a directory to the set. 1; 0 if it was in it; -ENOMEM. */
static int add_directory(struct directory_set *k, const char *path, size_t length) {
  const uint64_t hash[2] = {shard_xxh64(path, length, 0), shard_xxh64(path, length, 1) | 1};
  if (2 * (k->count + 1) > k->room && grow_set(k) != 0) {
    return -ENOMEM;
  }
  size_t i = find_slot(k, hash);
  if (k->slots[i][1]) {
    return 0;
  }
  memcpy(k->slots[i], hash, sizeof(hash));
  k->count++;
  return 1;
}

/* ---- names -------------------------------------------------------------- */

static int append_item(struct shard_stream_writer *p, const char *name, size_t length,
                       bool directory) {
  char *text = shard_grow(p->text, p->text_used, length, &p->text_room, 1);
  struct part_item *items = shard_grow(p->items, p->count, 1, &p->room, sizeof(*items));
  p->text = text ? text : p->text;
  p->items = items ? items : p->items;
  if (!text || !items) {
    return -ENOMEM;
  }
  memcpy(p->text + p->text_used, name, length);
  p->items[p->count++] = (struct part_item){p->text_used, (uint32_t)length, directory};
  p->names += !directory;
  p->text_used += length;
  return 0;
}

int shard_stream_writer_add(struct shard_stream_writer *p, const char *name, size_t length) {
  size_t base = shard_codec_basename(name, length);
  if (length == 0 || length >= SHARD_NAME_MAX) {
    return -ENAMETOOLONG;
  }
  if (base != p->last_length || memcmp(name, p->last, base) != 0) {
    for (size_t from = 0, end; (end = shard_codec_next_directory(name, base, &from)) > 0;) {
      int rc = add_directory(&p->known, name, end);
      rc = rc > 0 ? append_item(p, name, end, true) : rc;
      if (rc != 0) {
        return rc;
      }
    }
    memcpy(p->last, name, base);
    p->last_length = base;
  }
  return append_item(p, name, length, false);
}

static int compare_items(const void *pa, const void *pb, void *context) {
  const char *text = context;
  const struct part_item *a = pa, *b = pb;
  if (a->directory != b->directory) {
    return a->directory ? 1 : -1; /* the others come after the names */
  }
  int order = memcmp(text + a->at, text + b->at, a->length < b->length ? a->length : b->length);
  return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* Publish what has been added as a part. */
static int write_part(struct shard_stream_writer *p) {
  char path[PATH_MAX], digest[65];
  struct shard_writer *w;
  struct shard_writer_facts facts = {.source = p->source, .options = p->options};
  uint64_t bytes;
  clock_gettime(CLOCK_REALTIME, &facts.listed);
  snprintf(path, sizeof(path), "%s.%llu.listing", p->base, (unsigned long long)p->parts);
  qsort_r(p->items, p->count, sizeof(*p->items), compare_items, p->text);
  int rc = shard_writer_open(path, SHARD_ORDER_PATH, SHARD_ATTRIBUTES_MADE, &w);
  if (rc != 0) {
    return rc;
  }
  for (size_t i = 0; i < p->count && rc == 0; i++) {
    const struct part_item *item = &p->items[i];
    rc = shard_writer_put(w, item->directory ? SHARD_WRITER_OTHERS : SHARD_WRITER_NAMES,
                          p->text + item->at, item->length, 0, 0);
  }
  if (rc != 0) {
    shard_writer_abort(w);
    return rc;
  }
  rc = shard_writer_commit(w, &facts, digest, &bytes);
  if (rc == 0) {
    p->parts++;
    p->visible += p->names;
    p->count = p->names = p->text_used = 0;
  }
  return rc;
}

int shard_stream_writer_pause(struct shard_stream_writer *p) {
  bool enough = p->names > p->visible / PART_SHARE || p->text_used >= PART_BYTES;
  return p->count > 0 && enough ? write_part(p) : 0;
}

void shard_stream_writer_drop(struct shard_stream_writer *p) {
  char path[PATH_MAX];
  while (p->parts > 0) { /* the last part first: a reader must never find a gap before a part */
    snprintf(path, sizeof(path), "%s.%llu.listing", p->base, (unsigned long long)--p->parts);
    unlink(path);
  }
}

int shard_stream_writer_end(struct shard_stream_writer *p) {
  char path[PATH_MAX], text[32];
  struct shard_whole end;
  int rc = p->count > 0 ? write_part(p) : 0;
  if (rc != 0) {
    return rc;
  }
  snprintf(path, sizeof(path), "%s.end", p->base);
  int n = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)p->parts);
  rc = shard_whole_open(&end, path, SHARD_WHOLE_PRIVATE, SHARD_WHOLE_LAZY);
  if (rc == 0 && (rc = shard_spool_write_at(end.fd, text, (size_t)n, 0)) != 0) {
    shard_whole_abort(&end);
  } else if (rc == 0) {
    rc = shard_whole_publish(&end);
  }
  return rc;
}
