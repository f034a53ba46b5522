/* SPDX-License-Identifier: MIT */
/*
 * names.c - reads the names of a listing: by position, in order, and by name.
 *
 * A position is looked up among the extents, by bisection, and then in a block or a run. The
 * bisection does not check the extents on its way, only the one that it ends at: that must hold the
 * position.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "listing/codec.h"
#include "listing/listing.h"

/* ---- extents ------------------------------------------------------------------------------ */

/* The first position of extent k. */
static uint64_t extent_first(const struct shard_table *t, uint64_t k) {
  uint64_t first;
  memcpy(&first, t->extents + k * sizeof(struct shard_extent), sizeof(first));
  return first;
}

/* Read extent k and check it. *record: a run's; NULL for blocks. */
static int read_extent(const struct shard_table *t, uint64_t k, struct shard_extent *out,
                       const uint8_t **record) {
  memcpy(out, t->extents + k * sizeof(*out), sizeof(*out));
  *record = NULL;
  uint32_t crc = shard_crc32c(t->seed + SHARD_SEED_EXTENT + (uint32_t)k, out,
                              offsetof(struct shard_extent, crc));
  if (out->size) {
    if (out->size > shard_listing_record_most(t->longest) || out->size > t->runs_size ||
        out->where > t->runs_size - out->size) {
      return -EBADMSG;
    }
    *record = t->extents + t->extent_count * sizeof(*out) + out->where;
    crc = shard_crc32c(crc, *record, out->size);
  }
  return shard_listing_sum_fits(crc, out->crc) && out->count > 0 && out->first <= t->count &&
                 out->count <= t->count - out->first
             ? 0
             : -EBADMSG;
}

/* Find and read extent *k, which holds position i < count. hint: the extent that probably has it,
 * or the extent before that. */
static int find_extent(const struct shard_position *p, uint64_t i, uint64_t hint, uint64_t *k,
                       struct shard_extent *out, const uint8_t **record) {
  const struct shard_table *t = p->table;
  uint64_t low = 0, high = t->extent_count;
  for (uint64_t guess = hint; guess < t->extent_count && guess < hint + 2; guess++) {
    if (extent_first(t, guess) <= i &&
        (guess + 1 == t->extent_count || extent_first(t, guess + 1) > i)) {
      low = high = guess + 1;
      break;
    }
  }
  while (low < high) {
    uint64_t mid = low + (high - low) / 2;
    if (extent_first(t, mid) <= i) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  if (low == 0) {
    return -EBADMSG;
  }
  *k = low - 1;
  int rc = read_extent(t, *k, out, record);
  return rc == 0 && i - out->first < out->count ? 0 : -EBADMSG; /* what is before it wraps */
}

/* ---- blocks ------------------------------------------------------------------------------- */

/* The blocks of a section, by its index. */
struct blocks {
  const uint8_t *index, *section;
  uint64_t size;
  uint32_t seed;
};

/* An entry of an index, with the end of its block. */
struct block {
  uint64_t begin;
  size_t size;
  uint32_t crc;
};

/* Read an entry of an index of a section of `section` bytes. false: there cannot be such a block,
 * or it has more than `most` bytes. */
static bool read_entry(const uint8_t *entry, uint64_t section, size_t most, struct block *out) {
  uint64_t end;
  memcpy(&out->begin, entry, sizeof(out->begin));
  memcpy(&out->crc, entry + sizeof(out->begin), sizeof(out->crc));
  memcpy(&end, entry + SHARD_INDEX_ENTRY, sizeof(end));
  if (out->begin >= end || end > section || end - out->begin > most) {
    return false;
  }
  out->size = (size_t)(end - out->begin);
  return true;
}

/* Find a block of at most `most` bytes, and check it. */
static int find_block(const struct blocks *b, uint64_t number, size_t most, const uint8_t **data,
                      size_t *size) {
  struct block block;
  if (!read_entry(b->index + number * SHARD_INDEX_ENTRY, b->size, most, &block)) {
    return -EBADMSG;
  }
  *size = block.size;
  *data = b->section + block.begin;
  uint32_t crc = shard_crc32c(b->seed + (uint32_t)number, *data, block.size);
  return shard_listing_sum_fits(crc, block.crc) ? 0 : -EBADMSG;
}

/* Put p at the beginning of the n-th block of an extent. */
static int enter_block(struct shard_position *p, const struct shard_extent *e, uint64_t n) {
  const struct shard_table *t = p->table;
  const struct blocks blocks = {t->index, t->names, t->names_size, t->seed};
  const uint8_t *data;
  size_t size;
  uint64_t block = e->where + n, before = n * SHARD_BLOCK_NAMES;
  if (block < n || block >= t->blocks) {
    return -EBADMSG;
  }
  int rc = find_block(&blocks, block, shard_listing_block_most(t->longest), &data, &size);
  if (rc != 0 || *data != SHARD_BLOCK_FRONT) {
    return -EBADMSG;
  }
  p->next = data + 1;
  p->end = data + size;
  p->position = e->first + before;
  p->left = e->count - before < SHARD_BLOCK_NAMES ? e->count - before : SHARD_BLOCK_NAMES;
  p->digits_end = 0;
  p->length = 0;
  return 0;
}

/* ---- runs --------------------------------------------------------------------------------- */

/* The record of a run, taken apart. */
struct run_record {
  const uint8_t *prefix, *suffix;
  uint32_t prefix_length, suffix_length, width;
  uint64_t number;
};

static int read_run(const uint8_t *p, const uint8_t *end, struct run_record *out) {
  *out = (struct run_record){0};
  if (shard_codec_get_varint(&p, end, &out->prefix_length) != 0 ||
      out->prefix_length > (size_t)(end - p)) {
    return -EBADMSG;
  }
  out->prefix = p;
  p += out->prefix_length;
  if (shard_codec_get_varint(&p, end, &out->width) != 0 || out->width == 0 ||
      out->width > SHARD_RUN_DIGITS || shard_codec_get_varint64(&p, end, &out->number) != 0 ||
      shard_codec_get_varint(&p, end, &out->suffix_length) != 0 ||
      out->suffix_length != (size_t)(end - p)) {
    return -EBADMSG;
  }
  out->suffix = p;
  return 0;
}

/* Put p before the n-th name of a run. */
static int enter_run(struct shard_position *p, const struct shard_extent *e, const uint8_t *record,
                     uint64_t n) {
  struct run_record run;
  if (read_run(record, record + e->size, &run) != 0) {
    return -EBADMSG;
  }
  uint64_t length = (uint64_t)run.prefix_length + run.width + run.suffix_length, limit = 1;
  for (uint32_t k = 0; k < run.width; k++) {
    limit *= 10;
  }
  if (length > p->table->longest || run.number >= limit || e->count > limit - run.number) {
    return -EBADMSG;
  }
  p->next = record;
  p->end = record + e->size;
  p->position = e->first + n;
  p->left = e->count - n;
  p->number = run.number + n;
  p->digits_end = run.prefix_length + run.width;
  p->length = 0;
  return 0;
}

/* Put p's first name of the run it has entered into p->name. */
static int begin_run(struct shard_position *p) {
  struct run_record run;
  int rc = read_run(p->next, p->end, &run);
  if (rc == 0) {
    memcpy(p->name, run.prefix, run.prefix_length);
    shard_codec_put_digits(p->name + run.prefix_length, run.width, p->number);
    memcpy(p->name + p->digits_end, run.suffix, run.suffix_length);
    p->length = p->digits_end + run.suffix_length;
    p->name[p->length] = 0;
  }
  return rc;
}

/* ---- positions ---------------------------------------------------------------------------- */

/* Decode one more name of the current block into p->name. */
static inline int step_block(struct shard_position *p) {
  uint32_t prefix = 0, suffix = 0, middle = 0, old = p->length;
  const uint8_t *next = p->next;
  if (old != 0 && p->end - next >= 3 && !((next[0] | next[1] | next[2]) & 0x80)) {
    prefix = next[0];
    suffix = next[1];
    middle = next[2];
    p->next = next += 3;
  } else {
    /* The first name of a block is coded without prefix and suffix. */
    if ((old != 0 && (shard_codec_get_varint(&p->next, p->end, &prefix) != 0 ||
                      shard_codec_get_varint(&p->next, p->end, &suffix) != 0)) ||
        shard_codec_get_varint(&p->next, p->end, &middle) != 0) {
      return -EBADMSG;
    }
    next = p->next;
  }
  if (middle > (size_t)(p->end - next) || prefix > old || suffix > old - prefix) {
    return -EBADMSG;
  }
  uint64_t length = (uint64_t)prefix + middle + suffix;
  if (length == 0 || length > p->table->longest) {
    return -EBADMSG;
  }
  if (length != old) {
    memmove(p->name + prefix + middle, p->name + old - suffix, suffix);
    p->name[length] = 0;
    p->length = (uint32_t)length;
  }
  p->next = next + middle;
  char *to = p->name + prefix;
  if (middle > 4) {
    memcpy(to, next, middle);
  } else { /* mostly a digit or two: a call would take longer */
    for (uint32_t k = 0; k < middle; k++) {
      to[k] = (char)next[k];
    }
  }
  return 0;
}

/* Decode the next name of the current block or run. */
static inline int step_extent(struct shard_position *p) {
  int rc = 0;
  if (p->digits_end == 0) {
    rc = step_block(p);
  } else if (p->length == 0) {
    rc = begin_run(p);
  } else {
    shard_codec_count_up(p->name + p->digits_end);
  }
  p->left--;
  p->position++;
  return rc;
}

/* Put p at the beginning of the block that holds position i, or before i in a run. */
static int enter_extent(struct shard_position *p, uint64_t i, uint64_t hint) {
  struct shard_extent e;
  const uint8_t *record;
  int rc = find_extent(p, i, hint, &p->extent, &e, &record);
  return rc       ? rc
         : e.size ? enter_run(p, &e, record, i - e.first)
                  : enter_block(p, &e, (i - e.first) / SHARD_BLOCK_NAMES);
}

int shard_names_seek(struct shard_position *p, const struct shard_table *t, uint64_t i) {
  p->table = t;
  p->position = i;
  p->left = 0;
  p->extent = 0;
  if (!p->name || i >= t->count) {
    return p->name ? 0 : -ENOMEM;
  }
  int rc = enter_extent(p, i, t->extent_count);
  while (rc == 0 && p->position < i) {
    rc = step_extent(p);
  }
  return rc;
}

/* Decode the next name, of the next block or extent if need be. 1; 0 at the end; -EBADMSG. */
static inline int next_name(struct shard_position *p) {
  if (p->left == 0) {
    if (p->position >= p->table->count) {
      return 0;
    }
    uint64_t at = p->position;
    int rc = enter_extent(p, at, p->extent);
    if (rc != 0 || p->position != at) { /* extents that overlap lead back */
      return -EBADMSG;
    }
  }
  int rc = step_extent(p);
  return rc ? rc : 1;
}

int shard_names_next(struct shard_position *p) { return next_name(p); }

int shard_listing_seek(struct shard_cursor *c, const struct shard_listing *l, uint64_t i) {
  if (i > l->names.count) {
    return -EINVAL;
  }
  c->at = (struct shard_position){.table = &l->names, .position = i, .name = c->name};
  c->error = shard_names_seek(&c->at, &l->names, i);
  return c->error;
}

ssize_t shard_listing_next(struct shard_cursor *c, const char **name) {
  if (c->error == 0) {
    int rc = next_name(&c->at);
    if (rc > 0) {
      *name = c->name;
      return c->at.length;
    }
    c->error = rc;
  }
  return c->error;
}

ssize_t shard_listing_name(const struct shard_listing *l, uint64_t i, char *buf, size_t size) {
  if (i >= l->names.count) {
    return -EINVAL;
  }
  SHARD_POSITION(p, &l->names);
  int rc = shard_names_seek(&p, &l->names, i);
  if (rc == 0) {
    rc = step_extent(&p);
  }
  if (rc != 0) {
    return rc;
  }
  if (p.length >= size) {
    return -ERANGE;
  }
  memcpy(buf, p.name, p.length + 1);
  return p.length;
}

/* ---- by name ------------------------------------------------------------------------------ */

/* The name that is looked for. */
struct target {
  const struct shard_table *table;
  const char *name;
  size_t length;
};

static int compare_target(const struct target *w, const struct shard_position *p) {
  if (w->table->order == SHARD_ORDER_DIRECTORY) {
    return shard_codec_compare_directory(p->name, p->length, w->name, w->length);
  }
  return shard_codec_compare_names(w->table->order, p->name, p->length, w->name, w->length);
}

/* How many of n ascending names are not after the target. step_to(p, context, k) decodes one. */
static int64_t count_not_after(const struct target *w, struct shard_position *p, uint64_t n,
                               int (*step_to)(struct shard_position *p, const void *context,
                                              uint64_t k),
                               const void *context) {
  uint64_t low = 0, high = n;
  while (low < high) {
    uint64_t mid = low + (high - low) / 2;
    int rc = step_to(p, context, mid);
    if (rc != 0) {
      return rc;
    }
    if (compare_target(w, p) <= 0) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return (int64_t)low;
}

static int step_to_extent(struct shard_position *p, const void *none, uint64_t k) {
  struct shard_extent e;
  const uint8_t *record;
  (void)none;
  int rc = read_extent(p->table, k, &e, &record);
  if (rc == 0) {
    rc = e.size ? enter_run(p, &e, record, 0) : enter_block(p, &e, 0);
  }
  return rc ? rc : step_extent(p);
}

static int step_to_block(struct shard_position *p, const void *extent, uint64_t k) {
  int rc = enter_block(p, extent, k);
  return rc ? rc : step_extent(p);
}

/* p->name holds the run's first name: the others differ from it in their digits alone. */
static int step_in_run(struct shard_position *p, const void *run, uint64_t k) {
  const struct run_record *r = run;
  shard_codec_put_digits(p->name + r->prefix_length, r->width, r->number + k);
  return 0;
}

static int64_t find_in_run(const struct target *w, struct shard_position *p,
                           const struct shard_extent *e, const uint8_t *record, bool *equal) {
  struct run_record run;
  int rc = enter_run(p, e, record, 0);
  if (rc == 0) {
    rc = begin_run(p);
  }
  if (rc != 0 || (rc = read_run(record, record + e->size, &run)) != 0) {
    return rc;
  }
  int64_t after = count_not_after(w, p, e->count, step_in_run, &run);
  if (after > 0) { /* always: the run's first name is not after the target */
    step_in_run(p, &run, (uint64_t)after - 1);
    *equal = compare_target(w, p) == 0;
    after -= *equal;
  }
  return (int64_t)e->first + after;
}

/* As shard_names_lower_bound(). *equal: the name at that position is `name` itself. */
static int64_t find_lower_bound(const struct shard_table *t, const char *name, size_t length,
                                bool *equal) {
  SHARD_POSITION(p, t);
  struct target w = {t, name, length};
  struct shard_extent e;
  const uint8_t *record;
  *equal = false;
  if (!p.name) {
    return -ENOMEM;
  }
  p.table = t;
  int64_t k = count_not_after(&w, &p, t->extent_count, step_to_extent, NULL);
  if (k <= 0) {
    return k;
  }
  int rc = read_extent(t, (uint64_t)k - 1, &e, &record);
  if (rc != 0) {
    return rc;
  }
  if (e.size) {
    return find_in_run(&w, &p, &e, record, equal);
  }
  k = count_not_after(&w, &p, shard_listing_attribute_blocks(e.count), step_to_block, &e);
  if (k <= 0) {
    return k < 0 ? k : -EBADMSG; /* 0 is damage: the extent's first name was not after the target */
  }
  rc = enter_block(&p, &e, (uint64_t)k - 1);
  while (rc == 0 && p.left > 0) {
    rc = step_extent(&p);
    if (rc == 0) {
      int order = compare_target(&w, &p);
      if (order >= 0) {
        *equal = order == 0;
        return (int64_t)p.position - 1;
      }
    }
  }
  return rc ? rc : (int64_t)p.position;
}

int64_t shard_names_lower_bound(const struct shard_table *t, const char *name, size_t length) {
  bool ignored;
  return find_lower_bound(t, name, length, &ignored);
}

int64_t shard_names_find(const struct shard_table *t, const char *name, size_t length) {
  bool equal;
  int64_t at = find_lower_bound(t, name, length, &equal);
  return at < 0 || equal ? at : -ENOENT;
}

int shard_names_below(const struct shard_table *t, const char *path, size_t length, uint64_t *begin,
                      uint64_t *end) {
  *begin = 0;
  *end = t->count;
  if (length == 0) {
    return 0;
  }
  SHARD_WORKSPACE_OF(key, length + 2);
  if (!key) {
    return -ENOMEM;
  }
  memcpy(key, path, length);
  int64_t first = shard_names_lower_bound(t, key, length);
  key[length - 1] = '/' + 1;
  if (t->order == SHARD_ORDER_SAMPLE) { /* that is a file, and comes before directories: "0\1/" */
    key[length++] = SHARD_CODEC_STEM;
    key[length++] = '/';
  }
  int64_t last = first < 0 ? first : shard_names_lower_bound(t, key, length);
  if (last < 0) {
    return (int)last;
  }
  *begin = (uint64_t)first;
  *end = (uint64_t)last;
  return 0;
}

int64_t shard_listing_find(const struct shard_listing *l, const char *name) {
  return shard_codec_is_manifest_order(l->names.order)
             ? -ENOTSUP
             : shard_names_find(&l->names, name, strlen(name));
}

/* ---- attributes --------------------------------------------------------------------------- */

/* Make the attributes of a source that has none. */
static void make_attributes(const struct shard_table *t, uint64_t block, uint32_t n,
                            struct shard_attributes *out) {
  bool names = !t->others;
  memset(out->type, names ? DT_REG : DT_DIR, n);
  for (uint32_t k = 0; k < n; k++) {
    /* An inode is neither 0 nor all ones, and not the same in both tables. */
    out->ino[k] = (block * SHARD_BLOCK_NAMES + k + 1) | (names ? 0 : 1ULL << 62);
  }
}

int shard_names_attributes(const struct shard_table *t, uint64_t block,
                           struct shard_attributes *out) {
  const uint8_t *p;
  size_t size;
  if (block >= shard_listing_attribute_blocks(t->count)) {
    return -EBADMSG;
  }
  uint64_t left = t->count - block * SHARD_BLOCK_NAMES;
  uint32_t n = (uint32_t)(left < SHARD_BLOCK_NAMES ? left : SHARD_BLOCK_NAMES), times;
  if (t->made) {
    make_attributes(t, block, n, out);
    return 0;
  }
  const size_t most = SHARD_BLOCK_NAMES * 18 + 10;
  const struct blocks blocks = {t->attribute_index, t->attributes, t->attributes_size, t->seed};
  if (!t->attributes || find_block(&blocks, block, most, &p, &size) != 0) {
    return -EBADMSG;
  }
  const uint8_t *end = p + size;
  for (uint32_t k = 0; k < n; k += times) {
    uint8_t type = p < end ? *p++ : 0;
    if (shard_codec_get_varint(&p, end, &times) != 0 || times == 0 || times > n - k) {
      return -EBADMSG;
    }
    memset(out->type + k, type, times);
  }
  uint64_t ino, coded;
  if (shard_codec_get_varint64(&p, end, &ino) != 0) {
    return -EBADMSG;
  }
  out->ino[0] = ino;
  for (uint32_t k = 1; k < n;) {
    if (shard_codec_get_varint64(&p, end, &coded) != 0 ||
        shard_codec_get_varint(&p, end, &times) != 0 || times == 0 || times > n - k) {
      return -EBADMSG;
    }
    uint64_t difference = (coded >> 1) ^ -(coded & 1);
    while (times-- > 0) {
      out->ino[k++] = ino += difference;
    }
  }
  return 0;
}
