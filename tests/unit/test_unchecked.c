/* SPDX-License-Identifier: MIT */
/*
 * A listing whose checksums all fit, whatever it says: anybody can compute them. reader.c and
 * names.c are compiled here so that they do not look at checksums, and each section lies before a
 * page that nobody may touch. Every field takes odd values: there is an error or an answer within
 * bounds, and nothing beyond a section or a buffer is touched. Where the map may be cut, each piece
 * of it in turn cannot be read.
 */
#define SHARD_CHECKSUMS_IGNORED
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/peek.h"

/* Memory between two forbidden pages: it ends where one begins, or, with `from_front`, begins where
 * one ends. */
static struct fence {
  uint8_t *base, *at;
  size_t whole, size;
} fences[64];
static bool from_front;

static void *fenced(size_t size) {
  size_t page = 4096, inner = (size + page - 1) / page * page;
  uint8_t *base = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED || mprotect(base + page, inner, PROT_READ | PROT_WRITE) != 0) {
    abort();
  }
  struct fence *f = fences;
  while (f->base) {
    f++;
  }
  *f = (struct fence){base, base + page + (from_front ? 0 : inner - size), inner + 2 * page, size};
  memset(base + page, 0x5a, inner);
  return f->at;
}

/* What lies between the memory and the forbidden pages is as it was: the kernel, which copies for
 * shard_peek(), stops at a page without a signal. */
static void check_slack(const struct fence *f) {
  for (const uint8_t *p = f->base + 4096; p < f->base + f->whole - 4096; p++) {
    p = p == f->at ? p + f->size : p;
    if (p < f->base + f->whole - 4096 && *p != 0x5a) {
      abort();
    }
  }
}

static void unfenced(void *p) {
  for (size_t i = 0; i < sizeof(fences) / sizeof(fences[0]); i++) {
    if (fences[i].base && fences[i].at == p) {
      check_slack(&fences[i]);
      munmap(fences[i].base, fences[i].whole);
      fences[i].base = NULL;
      return;
    }
  }
  free(p);
}

/*
 * shard_peek() while `hidden` is set, a file of which nothing may be read in another way. Call
 * number `fails` says that it has failed, but has copied: who goes on all the same gives a right
 * answer. From call number `changes` on, the byte at `changed` is another.
 */
static struct {
  uint8_t *hidden, *changed;
  size_t size;
  uint64_t calls, fails, changes;
} peeking;

static bool peek(void *to, const void *from, size_t size) {
  if (!peeking.hidden) {
    return shard_peek(to, from, size);
  }
  const uint8_t *at = from;
  peeking.calls++;
  if (at < peeking.hidden || size > peeking.size || at > peeking.hidden + peeking.size - size ||
      mprotect(peeking.hidden, peeking.size, PROT_READ | PROT_WRITE) != 0) {
    abort();
  }
  if (peeking.calls == peeking.changes) {
    ++*peeking.changed;
  }
  memcpy(to, from, size);
  mprotect(peeking.hidden, peeking.size, PROT_NONE);
  return peeking.calls != peeking.fails;
}

#define shard_peek peek
#define malloc(size) fenced(size)
#define free(p) unfenced(p)
#include "listing/reader.c"
#undef malloc
#undef free
#include "listing/names.c"

#include "names.h"
#define SCRATCH "/dev/shm"
#include "scratch.h"

/* A listing with blocks, runs, others and attributes, in memory: its file, and its sections, each
 * before a fence. */
struct subject {
  struct names names, others;
  struct shard_listing *listing;
  uint8_t *bytes;
  size_t size;
};

struct section {
  uint8_t *at;
  size_t size;
};

/* Put a section of a table before a fence. */
static struct section move(const uint8_t **place, size_t size) {
  struct section s = {size ? fenced(size) : NULL, size};
  if (size) {
    memcpy(s.at, *place, size);
    *place = s.at;
  }
  return s;
}

static void write_subject(struct subject *s, int order) {
  char digest[65];
  uint64_t bytes;
  names_sort(&s->names, order);
  names_others(&s->names, order, &s->others);
  assert_int_equal(names_write(&s->names, order, file, digest, &bytes), 0);
  s->size = bytes;
  s->bytes = calloc(1, s->size);
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  assert_int_equal(read(fd, s->bytes, s->size), s->size);
  close(fd);
  assert_int_equal(shard_listing_map(open(file, O_RDONLY | O_CLOEXEC), file, false, &s->listing),
                   0);
}

static void make(struct subject *s, int order) {
  memset(s, 0, sizeof(*s));
  names_run(&s->names, "a/img_", 4, 0, 140, ".jpeg");
  names_run(&s->names, "", 3, 860, 140, "");
  char text[64];
  names_run(&s->names, "z/a_name_that_is_longer_than_any_number_", 1, 0, 3, "");
  for (size_t i = 0; i < 140; i++) {
    names_add(&s->names, text,
              (size_t)snprintf(text, sizeof(text), "b/%03zu%s", i * 7, i % 3 ? "" : "xyz"));
  }
  write_subject(s, order);
}

static void drop(struct subject *s) {
  shard_listing_close(s->listing);
  names_free(&s->names);
  names_free(&s->others);
  free(s->bytes);
}

static bool is_error(int64_t rc) { return rc == -EBADMSG; }

/* Ask a table everything; its position's name lies before a fence, too. */
static void ask_table(const struct shard_table *t, const struct names *names) {
  static char *kept[2];
  static size_t sizes[2];
  static struct shard_attributes a;
  if (sizes[t->guarded] != shard_listing_room(t)) {
    unfenced(kept[t->guarded]);
    sizes[t->guarded] = shard_listing_room(t);
    kept[t->guarded] = fenced(sizes[t->guarded]);
  }
  char *name = kept[t->guarded];
  struct shard_position p = {.name = name};
  for (uint64_t i = 0; i <= t->count; i += i % 64 == 62 ? 1 : 31) {
    int rc = shard_names_seek(&p, t, i);
    assert_true(rc == 0 || is_error(rc));
    assert_true(rc != 0 || p.position == i);
    for (uint64_t k = i; rc == 0 && k < i + 3; k++) {
      rc = shard_names_next(&p);
      assert_true(rc == (k < t->count) || is_error(rc));
      assert_true(rc <= 0 || (p.position == k + 1 && p.length > 0 && p.length <= t->longest));
      assert_true(rc <= 0 || name[p.length] == 0);
      rc = rc > 0 ? 0 : -1;
    }
  }
  uint64_t seen = 0;
  int rc = shard_names_seek(&p, t, 0);
  while (rc == 0 && (rc = shard_names_next(&p)) > 0) {
    assert_true(++seen <= t->count);
    rc = 0;
  }
  assert_true(seen == t->count || is_error(rc));
  for (size_t i = 0; i < names->count; i += 39) {
    int64_t at = shard_names_lower_bound(t, names->v[i], strlen(names->v[i]));
    assert_true((at >= 0 && (uint64_t)at <= t->count) || is_error(at));
  }
  for (uint64_t block = 0; block < shard_listing_attribute_blocks(t->count) + 2; block++) {
    rc = shard_names_attributes(t, block, &a);
    assert_true(is_error(rc) || (rc == 0 && block < shard_listing_attribute_blocks(t->count)));
  }
}

/* Where the map may be cut, the buffers are the caller's. That takes longer, so not each time. */
static void ask_both(struct shard_table *t, const struct names *names) {
  static unsigned times;
  ask_table(t, names);
  if (times++ % 19 == 0) {
    t->guarded = true;
    ask_table(t, names);
    t->guarded = false;
  }
}

/* Every byte of a section, and each 4 and 8 bytes of it, with values that are just wrong or far
 * off. */
static void mutate(struct shard_table *t, const struct names *names, const struct section *s) {
  for (size_t at = 0; at < s->size; at += UNIT_PART) {
    uint8_t old = s->at[at];
    const uint8_t bytes[] = {
        0, 1, 2, 0x12, 0x13, 0x7f, 0x80, 0xff, (uint8_t)(old + 1), (uint8_t)(old - 1)};
    for (size_t v = 0; v < COUNT(bytes); v++) {
      s->at[at] = bytes[v];
      ask_both(t, names);
    }
    s->at[at] = old;
  }
  for (size_t width = 4; width <= 8; width += 4) {
    for (size_t at = 0; at + width <= s->size; at += 4 * UNIT_PART) {
      uint64_t old = 0;
      memcpy(&old, s->at + at, width);
      const uint64_t values[] = {0,
                                 old + 64,
                                 t->count,
                                 t->count + 1,
                                 t->names_size,
                                 t->names_size + 1,
                                 t->runs_size,
                                 t->runs_size + 1,
                                 t->blocks,
                                 UINT32_MAX,
                                 1ULL << 32,
                                 old + (1ULL << 32),
                                 old + (1ULL << 58),
                                 old + (1ULL << 63),
                                 UINT64_MAX,
                                 UINT64_MAX - 1,
                                 UINT64_MAX - 63,
                                 INT64_MAX};
      for (size_t v = 0; v < COUNT(values); v++) {
        memcpy(s->at + at, &values[v], width);
        ask_both(t, names);
      }
      memcpy(s->at + at, &old, width);
    }
  }
}

/* What a section says of the one behind the other is moved as well, so that its end is its end. */
static void sections(void **state) {
  (void)state;
  for (int order = 0; order < 2; order++) {
    struct subject s;
    make(&s, order);
    struct shard_table *tables[] = {&s.listing->names, &s.listing->others};
    const struct shard_table_header *headers[] = {&s.listing->header->names,
                                                  &s.listing->header->others};
    const struct names *names[] = {&s.names, &s.others};
    for (size_t k = 0; k < 2; k++) {
      struct shard_table *t = tables[k];
      const struct shard_table_header *h = headers[k];
      struct section all[] = {move(&t->names, h->names.size), move(&t->index, h->index.size),
                              move(&t->extents, h->extent.size),
                              move(&t->attributes, h->attributes.size),
                              move(&t->attribute_index, h->attribute_index.size)};
      ask_both(t, names[k]);
      for (size_t i = 0; i < COUNT(all); i++) {
        mutate(t, names[k], &all[i]);
      }
      for (size_t i = 0; i < COUNT(all); i++) {
        unfenced(all[i].at);
      }
    }
    drop(&s);
  }
}

#define MORE 20000

/* What is wrong in itself is refused, not only what leads astray. */
static void refuse(void) {
  struct subject s;
  make(&s, 0);
  struct shard_table *t = &s.listing->names;
  /* There is room behind the records, so that only a record's own bounds are in the way. */
  struct section extents = {fenced(s.listing->header->names.extent.size + MORE), 0};
  memset(extents.at, 0, s.listing->header->names.extent.size + MORE);
  memcpy(extents.at, t->extents, s.listing->header->names.extent.size);
  t->extents = extents.at;
  t->runs_size += MORE;
  struct section blocks = move(&t->names, s.listing->header->names.names.size);
  struct section index = move(&t->index, s.listing->header->names.index.size);
  t->guarded = true;
  struct shard_position p = {.name = fenced(shard_listing_room(t))};
  t->guarded = false;
  assert_true(t->extent_count >= 3);
#define REFUSED(i, field, value)                                                                   \
  do {                                                                                             \
    struct shard_extent bad = e;                                                                   \
    bad.field = (value);                                                                           \
    memcpy(place, &bad, sizeof(bad));                                                              \
    assert_int_equal(shard_names_seek(&p, t, i), -EBADMSG);                                        \
    assert_int_equal(shard_names_lower_bound(t, s.names.v[i], strlen(s.names.v[i])), -EBADMSG);    \
    t->guarded = true;                                                                             \
    assert_int_equal(shard_names_seek(&p, t, i), -EBADMSG);                                        \
    t->guarded = false;                                                                            \
    memcpy(place, &e, sizeof(e));                                                                  \
  } while (0)
  for (size_t k = 0; k < t->extent_count; k++) {
    struct shard_extent e;
    uint8_t *place = extents.at + k * sizeof(e);
    memcpy(&e, place, sizeof(e));
    uint64_t i = e.first + e.count / 2;
    REFUSED(i, count, 0);
    REFUSED(i, count, t->count - e.first + 1);
    REFUSED(i, count, UINT64_MAX);
    if (k == 0) { /* others lead to it by its place */
      REFUSED(i, first, t->count + 1);
      REFUSED(i, first, UINT64_MAX);
    }
    if (e.size) {
      REFUSED(i, where, t->runs_size - e.size + 1);
      REFUSED(i, where, UINT64_MAX - e.size + 1);
      REFUSED(i, size, e.size + 1);
      REFUSED(i, size, e.size - 1);
      REFUSED(i, size, shard_listing_record_most(t->longest) + 1);
      REFUSED(i, size, (uint32_t)t->runs_size);
      /* The record: how long the prefix is, the prefix, the width, the number. */
      uint8_t *record = extents.at + t->extent_count * sizeof(e) + e.where,
              *width = record + 1 + *record;
      const uint8_t widths[] = {0, SHARD_RUN_DIGITS + 1, 1, 2};
      for (size_t w = 0; w < COUNT(widths); w++) {
        uint8_t old = *width;
        *width = widths[w];
        assert_int_equal(shard_names_seek(&p, t, i), -EBADMSG);
        *width = old;
      }
    } else {
      REFUSED(i, where, t->blocks);
      REFUSED(i, where, UINT64_MAX);
      uint64_t block = e.where + (i - e.first) / SHARD_BLOCK_NAMES, begin;
      memcpy(&begin, index.at + block * SHARD_INDEX_ENTRY, sizeof(begin));
      uint8_t *kind = blocks.at + begin, *first = kind + 1, length = *first;
      *kind = SHARD_BLOCK_FRONT + 1;
      assert_int_equal(shard_names_seek(&p, t, i), -EBADMSG);
      *kind = SHARD_BLOCK_FRONT;
      *first = 0;
      assert_int_equal(shard_names_seek(&p, t, i), -EBADMSG);
      *first = length;
    }
  }
  unfenced(p.name);
  unfenced(extents.at);
  unfenced(blocks.at);
  unfenced(index.at);
  drop(&s);
}

static void refused(void **state) {
  (void)state;
  refuse();
  from_front = true;
  refuse();
  from_front = false;
}

/* A piece in the place of another: what it is, and who is asked. */
struct piece {
  uint8_t bytes[40];
  size_t size;
};
#define PIECE_OF(...)                                                                              \
  { {__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}) }
#define LONG5 0x80, 0x80, 0x80, 0x80, 0x80
#define LONG10 LONG5, LONG5

/* Put a section before a fence, with a piece at its end that entry `block` of its index leads to.
 */
static void put_piece(const uint8_t **section, uint64_t *size, const uint8_t **index,
                      size_t index_size, uint64_t block, const struct piece *piece) {
  uint8_t *new = fenced(*size + piece->size), *entries = fenced(index_size);
  uint64_t end = *size + piece->size;
  memcpy(new, *section, *size);
  memcpy(new + *size, piece->bytes, piece->size);
  memcpy(entries, *index, index_size);
  memcpy(entries + block * SHARD_INDEX_ENTRY, size, sizeof(*size));
  memcpy(entries + (block + 1) * SHARD_INDEX_ENTRY, &end, sizeof(end));
  *section = new;
  *index = entries;
  *size = end;
}

/* Numbers that are cut short or too long, lengths that do not add up: each alone in what is else
 * good. */
static void pieces(void **state) {
  (void)state;
  static const struct piece records[] = {
      PIECE_OF(0x80),
      PIECE_OF(LONG5, 1, 0, 0),
      PIECE_OF(9, 'a', 1, 0, 0),
      PIECE_OF(0),
      PIECE_OF(0, LONG5, 1, 0, 0),
      PIECE_OF(0, 0, 0, 0),
      PIECE_OF(0, 19, 0, 0),
      PIECE_OF(0, 3),
      PIECE_OF(0, 3, LONG10, 0),
      PIECE_OF(0, 1, 10, 0),
      PIECE_OF(0, 1, 0),
      PIECE_OF(0, 1, 0, 1),
      PIECE_OF(0, 1, 0, 0, 'x'),
      PIECE_OF(0, 1, 0, LONG5),
  };
  static const struct piece blocks[] = {
      PIECE_OF(1, 1, 'a', 1, 0, 1, 'b'),
      PIECE_OF(0),
      PIECE_OF(0, 0, 0, 0, 1, 'b'),
      PIECE_OF(0, LONG5, 0, 0, 1, 'b'),
      PIECE_OF(0, 3, 'a', 'b', 'c'),
      PIECE_OF(0, 3, 'a', 'b', 'c', LONG5, 1, 1, 'x', 'x', 'x'),
      PIECE_OF(0, 3, 'a', 'b', 'c', 1, LONG5, 1, 'x', 'x', 'x'),
      PIECE_OF(0, 3, 'a', 'b', 'c', 1, 1, LONG5, 'x', 'x', 'x'),
      PIECE_OF(0, 3, 'a', 'b', 'c', 4, 0, 1, 'x'),
      PIECE_OF(0, 3, 'a', 'b', 'c', 2, 2, 1, 'x'),
      PIECE_OF(0, 3, 'a', 'b', 'c', 0, 4, 1, 'x'),
      PIECE_OF(0, 3, 'a', 'b', 'c', 0, 0, 0),
      PIECE_OF(0, 3, 'a', 'b', 'c', 0, 0, 2, 'x'),
      PIECE_OF(0, 3, 'a', 'b', 'c', 0, 0),
  };
  static const struct piece attributes[] = {
      PIECE_OF(8, 10),
      PIECE_OF(8, 1, 8, LONG5, 8, 62, 5, 2, 63),
      PIECE_OF(8, 0, 8, 64, 5, 2, 63),
      PIECE_OF(8, 65, 5, 2, 63),
      PIECE_OF(8, 64),
      PIECE_OF(8, 64, LONG10, 2, 63),
      PIECE_OF(8, 64, 5, LONG10, 63),
      PIECE_OF(8, 1, 8, 63, 5, 2, LONG5),
      PIECE_OF(8, 64, 5, 2, 0, 2, 63),
      PIECE_OF(8, 64, 5, 2, 64),
      PIECE_OF(8, 64, 5, 2),
      PIECE_OF(8, 64, 5),
  };
  static const struct piece good[] = {
      PIECE_OF(0, 1, 0, 0), PIECE_OF(0, 3, 'a', 'b', 'c', 1, 1, 1, 'x'), PIECE_OF(8, 64, 5, 2, 63)};
  struct subject s;
  make(&s, 0);
  const struct shard_table t = s.listing->names;
  const struct shard_table_header *h = &s.listing->header->names;
  struct shard_extent e;
  uint64_t run = t.extent_count, block = t.extent_count;
  for (uint64_t k = 0; k < t.extent_count; k++) {
    memcpy(&e, t.extents + k * sizeof(e), sizeof(e));
    run = e.size ? k : run;
    block = e.size ? block : k;
  }
  assert_true(run < t.extent_count && block < t.extent_count);
  struct shard_attributes a;
  struct shard_position p = {.name = fenced(shard_listing_room(&t))};
  for (size_t i = 0; i <= COUNT(records); i++) {
    const struct piece *piece = i < COUNT(records) ? &records[i] : &good[0];
    struct shard_table bad = t;
    uint8_t *extents = fenced(h->extent.size + piece->size);
    memcpy(extents, t.extents, h->extent.size);
    memcpy(extents + h->extent.size, piece->bytes, piece->size);
    memcpy(&e, extents + run * sizeof(e), sizeof(e));
    e.where = t.runs_size;
    e.size = (uint32_t)piece->size;
    e.count = 1;
    memcpy(extents + run * sizeof(e), &e, sizeof(e));
    bad.extents = extents;
    bad.runs_size += piece->size;
    assert_int_equal(shard_names_seek(&p, &bad, e.first), piece == good ? 0 : -EBADMSG);
    unfenced(extents);
  }
  memcpy(&e, t.extents + block * sizeof(e), sizeof(e));
  for (size_t i = 0; i <= COUNT(blocks); i++) {
    const struct piece *piece = i < COUNT(blocks) ? &blocks[i] : &good[1];
    struct shard_table bad = t;
    put_piece(&bad.names, &bad.names_size, &bad.index, h->index.size, e.where, piece);
    int rc = shard_names_seek(&p, &bad, e.first + 1);
    rc = rc ? rc : shard_names_next(&p);
    assert_int_equal(rc, piece == &good[1] ? 1 : -EBADMSG);
    assert_true(rc < 0 || strcmp(p.name, "axc") == 0);
    unfenced((void *)bad.names);
    unfenced((void *)bad.index);
  }
  for (size_t i = 0; i <= COUNT(attributes); i++) {
    const struct piece *piece = i < COUNT(attributes) ? &attributes[i] : &good[2];
    struct shard_table bad = t;
    put_piece(&bad.attributes, &bad.attributes_size, &bad.attribute_index, h->attribute_index.size,
              0, piece);
    assert_int_equal(shard_names_attributes(&bad, 0, &a), piece == &good[2] ? 0 : -EBADMSG);
    unfenced((void *)bad.attributes);
    unfenced((void *)bad.attribute_index);
  }
  unfenced(p.name);
  drop(&s);
}

/* ---- what cannot be read any more --------------------------------------------------------------
 */

/* A listing whose file is hidden (peeking), as if it may be cut. */
static void hide(const struct shard_listing *l, struct shard_listing *out) {
  *out = *l;
  peeking.size = (l->map_size + 4095) / 4096 * 4096;
  peeking.hidden =
      mmap(NULL, peeking.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(peeking.hidden != MAP_FAILED);
  memcpy(peeking.hidden, l->map, l->map_size);
  mprotect(peeking.hidden, peeking.size, PROT_NONE);
#define MOVED(p) ((p) = peeking.hidden + ((p)-l->map))
  struct shard_table *tables[] = {&out->names, &out->others};
  for (size_t k = 0; k < 2; k++) {
    MOVED(tables[k]->names);
    MOVED(tables[k]->index);
    MOVED(tables[k]->extents);
    MOVED(tables[k]->attributes);
    MOVED(tables[k]->attribute_index);
    tables[k]->guarded = true;
  }
  MOVED(out->dirs);
  MOVED(out->dirs_end);
  out->map = peeking.hidden;
  out->guarded = true;
}

static void show_again(void) {
  munmap(peeking.hidden, peeking.size);
  memset(&peeking, 0, sizeof(peeking));
}

enum question { SEEK, BOUND, FIND, NAME, CURSOR, ATTRIBUTES, DIRECTORIES, DIRECTORY, VERIFY };

/* Ask for position i, or for all. The answer, or -EBADMSG. */
static int64_t ask(const struct shard_listing *l, const struct names *names, enum question question,
                   size_t i) {
  static struct shard_attributes a;
  static struct shard_cursor c;
  static char buf[8192];
  struct shard_position p = SHARD_POSITION(&l->names);
  struct shard_dir_entry d = SHARD_DIR_ENTRY(l);
  const uint8_t *pos = NULL;
  const char *name = names->v[i];
  int64_t rc;
  switch (question) {
  case SEEK:
    rc = shard_names_seek(&p, &l->names, i);
    for (int k = 0; rc >= 0 && k < 70; k++) {
      rc = shard_names_next(&p);
    }
    return rc;
  case BOUND:
    return shard_names_lower_bound(&l->names, name, strlen(name));
  case FIND:
    return shard_listing_find(l, name);
  case NAME:
    return shard_listing_name(l, i, buf, sizeof(buf));
  case CURSOR:
    rc = shard_listing_seek(&c, l, i);
    for (int k = 0; rc >= 0 && k < 70; k++) {
      rc = shard_listing_next(&c, &name);
    }
    return rc;
  case ATTRIBUTES:
    return shard_names_attributes(&l->names, i / SHARD_BLOCK_NAMES, &a);
  case DIRECTORIES:
    while (shard_listing_dir(l, &pos, &d)) {
      if (d.id.ino == 0) {
        return -EBADMSG;
      }
    }
    return 0;
  case DIRECTORY:
    return shard_listing_dir_find(l, 5, 6, &d);
  default:
    return shard_listing_verify(l);
  }
}

/* Whatever cannot be read: it is an error, and is not read in another way. */
static void unreadable(void **state) {
  (void)state;
  struct subject s;
  struct shard_listing l;
  make(&s, 0);
  hide(s.listing, &l);
  unsigned failures = 0;
  for (enum question q = SEEK; q <= VERIFY; q++) {
    for (size_t i = 0; i < s.names.count && (i == 0 || q < DIRECTORIES); i += 13) {
      peeking.fails = peeking.calls = 0;
      int64_t good = ask(&l, &s.names, q, i);
      assert_true(good >= 0);
      assert_int_equal(good, ask(s.listing, &s.names, q, i));
      uint64_t calls = peeking.calls;
      for (peeking.fails = 1; peeking.fails <= calls; peeking.fails++, failures++) {
        peeking.calls = 0;
        assert_int_equal(ask(&l, &s.names, q, i), -EBADMSG);
      }
    }
  }
  assert_true(failures > 1000);
  show_again();
  drop(&s);
}

/* A name that becomes a later one while it is looked for. */
static void changing(void **state) {
  (void)state;
  struct subject s;
  struct shard_listing l;
  make(&s, 0);
  struct shard_extent e;
  uint64_t k = 0, begin, damaged = 0;
  do { /* blocks that are not the first extent */
    memcpy(&e, s.listing->names.extents + k * sizeof(e), sizeof(e));
  } while (++k < s.listing->names.extent_count && (e.size || e.first == 0));
  assert_true(!e.size && e.first > 0);
  memcpy(&begin, s.listing->names.index + e.where * SHARD_INDEX_ENTRY, sizeof(begin));
  const char *name = s.names.v[e.first];
  for (uint64_t calls = 1, at = 1; at <= calls; at++) {
    hide(s.listing, &l);
    peeking.changed = (uint8_t *)l.names.names + begin + 2; /* behind the kind and the length */
    peeking.changes = at;
    int64_t found = shard_names_lower_bound(&l.names, name, strlen(name));
    assert_true(found == -EBADMSG || (found > 0 && (uint64_t)found <= l.names.count));
    damaged += found == -EBADMSG;
    calls = peeking.calls > calls ? peeking.calls : calls;
    show_again();
  }
  assert_true(damaged > 0);
  drop(&s);
}

/* A cursor's buffer holds a name and a block, or only a name, which then is decoded anew. */
static void cursors(void **state) {
  (void)state;
  struct subject s;
  struct shard_listing l;
  make(&s, 0);
  struct shard_cursor *c = fenced(sizeof(*c));
  hide(s.listing, &l);
  const uint32_t fits =
      (sizeof(c->name) - (shard_listing_block_most(0) + SHARD_AHEAD_INDEX + 2)) / 2;
  const uint32_t longest[] = {l.names.longest, fits - 1, fits, fits + 1, SHARD_NAME_MAX - 1};
  for (size_t i = 0; i < COUNT(longest); i++) {
    const char *name;
    l.names.longest = longest[i];
    peeking.calls = 0;
    assert_int_equal(shard_listing_seek(c, &l, 0), 0);
    for (size_t k = 0; k < s.names.count; k++) {
      assert_int_equal(shard_listing_next(c, &name), strlen(s.names.v[k]));
      assert_string_equal(name, s.names.v[k]);
    }
    assert_int_equal(shard_listing_next(c, &name), 0);
    bool cramped = shard_listing_room(&l.names) > sizeof(c->name);
    assert_int_equal(cramped, longest[i] > fits);
    assert_true(cramped ? peeking.calls > 2 * s.names.count
                        : peeking.calls < s.names.count); /* a block is copied once */
  }
  show_again();
  unfenced(c);
  drop(&s);
}

/* A cursor that reads on has many blocks copied at a time: no name is another one, wherever it
 * begins, however much room it has, and whichever copy fails. */
static void reading_on(void **state) {
  (void)state;
  struct subject s = {0};
  struct shard_listing l;
  char text[3100];
  for (uint32_t i = 0; i < 4000; i++) { /* some are so long that their block has few names */
    int n = snprintf(text, sizeof(text), "%08x%.*d", i * 2654435761u, i % 100 ? 1 : 3000, 0);
    names_add(&s.names, text, (size_t)n);
  }
  write_subject(&s, 0);
  struct shard_cursor *c = fenced(sizeof(*c));
  hide(s.listing, &l);
  l.names.extents = l.names.copy = (uint8_t *)s.listing->names.extents; /* as opening does */
  assert_true(l.names.blocks > 2 * SHARD_AHEAD_BLOCKS);
  for (size_t from = 0; from < s.names.count; from += 997) {
    uint64_t calls = 1, past = 0;
    for (uint64_t fails = 0; fails <= calls; fails++) {
      const char *name;
      size_t at = from;
      peeking.calls = 0;
      peeking.fails = fails;
      ssize_t rc = shard_listing_seek(c, &l, from);
      while (rc >= 0 && (rc = shard_listing_next(c, &name)) > 0) {
        assert_int_equal(rc, strlen(s.names.v[at]));
        assert_string_equal(name, s.names.v[at++]);
      }
      assert_int_equal(rc, fails ? -EBADMSG : 0);
      assert_true(fails || at == s.names.count);
      assert_true(at >= past); /* a later copy that fails stops it no earlier */
      past = fails ? at : 0;
      calls = fails ? calls : peeking.calls;
    }
    assert_true(from || calls < l.names.blocks); /* two copies for each block, before */
  }
  show_again();
  unfenced(c);
  drop(&s);
}

/* Headers that are not opened, and directories that are not found. */
static void headers(void **state) {
  (void)state;
  struct subject s;
  make(&s, 0);
  struct shard_header *h = (struct shard_header *)s.bytes, good = *h;
  struct shard_listing *l;
#define WRITE()                                                                                    \
  do {                                                                                             \
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);                           \
    assert_int_equal(write(fd, s.bytes, s.size), s.size);                                          \
    close(fd);                                                                                     \
  } while (0)
#define UNOPENED(field, value)                                                                     \
  do {                                                                                             \
    h->field = (value);                                                                            \
    WRITE();                                                                                       \
    assert_int_equal(shard_listing_open(file, &l), -EBADMSG);                                      \
    *h = good;                                                                                     \
  } while (0)
  UNOPENED(file_size, s.size - 1);
  UNOPENED(file_size, s.size + 1);
  UNOPENED(block_names, SHARD_BLOCK_NAMES + 1);
  UNOPENED(order, SHARD_ORDER_DIRECTORY + 1);
  UNOPENED(attributes, SHARD_ATTRIBUTES_MADE + 1);
  UNOPENED(longest, SHARD_NAME_MAX);
  UNOPENED(longest_other, SHARD_NAME_MAX);
  UNOPENED(longest_dir, SHARD_NAME_MAX);
  UNOPENED(directories, good.directories + 1);
  UNOPENED(directories, good.directories + (1ULL << 62));
  UNOPENED(directories, good.directories - 1);
  UNOPENED(dirs_by_inode.size, good.dirs_by_inode.size + 1);
  UNOPENED(names.count, (uint64_t)INT64_MAX + 1);
  UNOPENED(names.count, 0);
  UNOPENED(names.extents, 0);
  UNOPENED(names.extents, good.names.extent.size / 32 + 1);
  UNOPENED(names.extents, good.names.extents + (1ULL << 59));
  UNOPENED(names.blocks, good.names.blocks + 1);
  UNOPENED(names.blocks, UINT64_MAX);
  UNOPENED(names.blocks, good.names.blocks + (1ULL << 62));
  UNOPENED(names.index.size, good.names.index.size + 12);
  UNOPENED(names.index.size, good.names.index.size + 1);
  UNOPENED(names.index.size, 0);
  UNOPENED(others.attribute_index.size, good.others.attribute_index.size - 12);
  UNOPENED(names.attribute_index.size, 0);
  UNOPENED(names.blocks, (h->names.index.size = 0, UINT64_MAX));
  UNOPENED(names.count, (h->attributes = SHARD_ATTRIBUTES_NONE, (uint64_t)INT64_MAX + 1));
  UNOPENED(names.names.size, s.size);
  UNOPENED(names.names.offset, s.size + 1);
  UNOPENED(names.extent.offset, UINT64_MAX);
  UNOPENED(others.attributes.size, UINT64_MAX - good.others.attributes.offset + 2);
  UNOPENED(dirs.offset, s.size + 1);
  UNOPENED(dirs.size, s.size);
  struct shard_dir_entry d = {.path = ""};
  uint8_t *last = s.bytes + good.dirs.offset + good.dirs.size - 1,
          *by = s.bytes + good.dirs_by_inode.offset;
  uint64_t offsets[] = {0, good.dirs.size - 1, good.dirs.size, UINT64_MAX, 1ULL << 40};
  assert_int_equal(shard_listing_dir_find(s.listing, 5, 6, &d), 1);
  for (size_t i = 0; i < COUNT(offsets); i++) {
    memcpy(by + SHARD_INDEX_ENTRY, &offsets[i], 8);
    WRITE();
    assert_int_equal(shard_listing_open(file, &l), 0);
    assert_int_equal(shard_listing_dir_find(l, 5, 6, &d), -EBADMSG);
    shard_listing_close(l);
  }
  memcpy(by + SHARD_INDEX_ENTRY, s.listing->map + good.dirs_by_inode.offset + SHARD_INDEX_ENTRY, 8);
  *last = 'x';
  h->longest_dir = 2000;
  WRITE();
  assert_int_equal(shard_listing_open(file, &l), 0);
  assert_int_equal(shard_listing_dir_find(l, 5, 6, &d), -EBADMSG);
  const uint8_t *pos = NULL;
  assert_true(shard_listing_dir(l, &pos, &d) && d.id.ino == 2);
  assert_true(shard_listing_dir(l, &pos, &d) && d.id.ino == 0 && !*d.path);
  assert_false(shard_listing_dir(l, &pos, &d));
  shard_listing_close(l);
  /* Texts that do not end. */
  uint8_t *text = s.bytes + good.dirs.offset;
  memset(text, 'x', good.dirs.size);
  WRITE();
  assert_int_equal(shard_listing_open(file, &l), -EBADMSG);
  memcpy(text, "source", sizeof("source"));
  WRITE();
  assert_int_equal(shard_listing_open(file, &l), -EBADMSG);
  text[sizeof("source") + 3] = 0;
  WRITE();
  assert_int_equal(shard_listing_open(file, &l), 0);
  assert_string_equal(l->options, "xxx");
  shard_listing_close(l);
  /* One that is longer than a text can be, at the file's end. */
  for (size_t length = SHARD_NAME_MAX - 1; length <= SHARD_NAME_MAX; length++) {
    size_t size = s.size + length + 2; /* it, and an empty one */
    uint8_t *longer = calloc(1, size);
    memcpy(longer, s.bytes, s.size);
    memset(longer + s.size, 'x', length);
    struct shard_header *bigger = (struct shard_header *)longer;
    bigger->dirs = (struct shard_section){.offset = s.size, .size = length + 2};
    bigger->file_size = size;
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, longer, size), size);
    close(fd);
    int rc = shard_listing_open(file, &l);
    assert_int_equal(rc, length < SHARD_NAME_MAX ? 0 : -EBADMSG);
    if (rc == 0) {
      shard_listing_close(l);
    }
    free(longer);
  }
  drop(&s);
}

/* The header, and what opening reads: the file is a copy before a fence. */
static void files(void **state) {
  (void)state;
  struct subject s;
  make(&s, 0);
  const struct shard_header *good = s.listing->header;
  size_t dirs = good->dirs.offset, end = s.size, tried = 0, opened = 0;
  for (size_t at = 0; at < end; at = at + 4 == sizeof(*good) ? dirs : at + 4) {
    uint64_t old = 0;
    size_t width = at + 8 <= end ? 8 : 4;
    memcpy(&old, s.bytes + at, width);
    const uint64_t values[] = {0,
                               1,
                               old + 1,
                               old - 1,
                               old + 8,
                               old ^ 0xff,
                               old ^ 0xff00,
                               2 * old,
                               s.size,
                               s.size + 1,
                               old + (1ULL << 32),
                               old + (1ULL << 61),
                               old + (1ULL << 62),
                               old + (1ULL << 63),
                               old + UINT64_MAX / 12 + 1,
                               old + UINT64_MAX / 32 + 1,
                               UINT64_MAX / 12,
                               UINT64_MAX / 32,
                               UINT64_MAX,
                               UINT64_MAX - 7,
                               INT64_MAX,
                               UINT32_MAX,
                               INT32_MAX,
                               32767,
                               32768,
                               old | 0x4141414141414141ULL};
    for (size_t v = 0; v < COUNT(values); v += 1 + v % UNIT_PART) {
      struct shard_listing *l;
      memcpy(s.bytes + at, &values[v], width);
      int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      assert_int_equal(write(fd, s.bytes, s.size), s.size);
      close(fd);
      tried++;
      if (shard_listing_open(file, &l) == 0) {
        opened++;
        struct shard_dir_entry d = SHARD_DIR_ENTRY(l);
        const uint8_t *pos = NULL;
        for (size_t seen = 0; shard_listing_dir(l, &pos, &d); seen++) {
          assert_true(seen <= l->header->dirs.size && strlen(d.path) <= s.size);
        }
        for (uint64_t i = 0; i < 8; i++) {
          int rc = shard_listing_dir_find(l, i, i + 1, &d);
          assert_true(rc == 0 || rc == 1 || is_error(rc));
        }
        if (l->names.count < 1000 && l->others.count < 1000) {
          ask_table(&l->names, &s.names);
          ask_table(&l->others, &s.others);
        }
        int whole = shard_listing_verify(l);
        assert_true(whole == 0 || is_error(whole));
        shard_listing_close(l);
      }
    }
    memcpy(s.bytes + at, &old, width);
  }
  assert_true(opened > tried / 10 && opened < tried);
  drop(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refused),  cmocka_unit_test(pieces),  cmocka_unit_test(headers),
      cmocka_unit_test(sections), cmocka_unit_test(files),   cmocka_unit_test(unreadable),
      cmocka_unit_test(changing), cmocka_unit_test(cursors), cmocka_unit_test(reading_on),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
