/* SPDX-License-Identifier: MIT */
/*
 * A listing whose checksums all fit, whatever it says: anybody can compute them. reader.c and
 * names.c are compiled here so that they do not look at checksums, and each section, or the whole
 * file, lies before a page that nobody may touch. Every field takes odd values: there is an error
 * or an answer within bounds, and nothing beyond a section or a buffer is touched.
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
#include <unistd.h>

/* Memory between two forbidden pages: it ends where one begins, or, with `from_front`, begins where
 * one ends. */
static struct fence {
  uint8_t *base, *at;
  size_t whole;
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
  *f = (struct fence){base, base + page + (from_front ? 0 : inner - size), inner + 2 * page};
  return f->at;
}

static void unfenced(void *p) {
  for (size_t i = 0; i < sizeof(fences) / sizeof(fences[0]); i++) {
    if (fences[i].base && fences[i].at == p) {
      munmap(fences[i].base, fences[i].whole);
      fences[i].base = NULL;
      return;
    }
  }
}

/* A file, before a forbidden page; a header is aligned. */
static void *map_fenced(size_t size, int fd) {
  uint8_t *p = fenced((size + 7) / 8 * 8);
  if (pread(fd, p, size, 0) != (ssize_t)size) {
    abort();
  }
  return p;
}

#define mmap(at, size, protection, flags, fd, offset) map_fenced(size, fd)
#define munmap(p, size) unfenced(p)
#include "listing/reader.c"
#undef mmap
#undef munmap
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
  assert_int_equal(shard_listing_open(file, &s->listing), 0);
}

/* `more`: how long another name is, so that files differ in size. */
static void make_with(struct subject *s, int order, int more) {
  memset(s, 0, sizeof(*s));
  names_run(&s->names, "a/img_", 4, 0, 140, ".jpeg");
  names_run(&s->names, "", 3, 860, 140, "");
  char text[64];
  names_run(&s->names, "z/a_name_that_is_longer_than_any_number_", 1, 0, 3, "");
  for (size_t i = 0; i < 140; i++) {
    names_add(&s->names, text,
              (size_t)snprintf(text, sizeof(text), "b/%03zu%s", i * 7, i % 3 ? "" : "xyz"));
  }
  names_add(&s->names, text, (size_t)snprintf(text, sizeof(text), "c%0*d", more, 0));
  write_subject(s, order);
}

static void make(struct subject *s, int order) { make_with(s, order, 1); }

static void drop(struct subject *s) {
  shard_listing_close(s->listing);
  names_free(&s->names);
  names_free(&s->others);
  free(s->bytes);
}

/* One that ends at its fence: map_fenced() aligns it. */
static void make_aligned(struct subject *s) {
  int more = 1;
  for (make_with(s, 0, more); s->size % 8; make_with(s, 0, ++more)) {
    assert_true(more < 60);
    drop(s);
  }
}

static bool is_error(int64_t rc) { return rc == -EBADMSG; }

/* Ask a table everything; its position's name lies before a fence, too. */
static void ask_table(const struct shard_table *t, const struct names *names) {
  static char *name;
  static size_t room;
  static struct shard_attributes a;
  if (room != shard_listing_room(t)) {
    unfenced(name);
    room = shard_listing_room(t);
    name = fenced(room);
  }
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

/* Every byte of a section, and each 4 and 8 bytes of it, with values that are just wrong or far
 * off. */
static void mutate(struct shard_table *t, const struct names *names, const struct section *s) {
  for (size_t at = 0; at < s->size; at += UNIT_PART) {
    uint8_t old = s->at[at];
    const uint8_t bytes[] = {
        0, 1, 2, 0x12, 0x13, 0x7f, 0x80, 0xff, (uint8_t)(old + 1), (uint8_t)(old - 1)};
    for (size_t v = 0; v < COUNT(bytes); v++) {
      s->at[at] = bytes[v];
      ask_table(t, names);
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
        ask_table(t, names);
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
      ask_table(t, names[k]);
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
  struct shard_position p = {.name = fenced(shard_listing_room(t))};
  assert_true(t->extent_count >= 3);
#define REFUSED(i, field, value)                                                                   \
  do {                                                                                             \
    struct shard_extent bad = e;                                                                   \
    bad.field = (value);                                                                           \
    memcpy(place, &bad, sizeof(bad));                                                              \
    assert_int_equal(shard_names_seek(&p, t, i), -EBADMSG);                                        \
    assert_int_equal(shard_names_lower_bound(t, s.names.v[i], strlen(s.names.v[i])), -EBADMSG);    \
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

/* Headers that are not opened, and directories that do not end. */
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
  struct shard_dir d;
  const char *path;
  const uint8_t *pos = NULL;
  s.bytes[good.dirs.offset + good.dirs.size - 1] = 'x';
  WRITE();
  assert_int_equal(shard_listing_open(file, &l), 0);
  assert_true(shard_listing_dir(l, &pos, &d, &path) && d.ino == 2);
  assert_true(shard_listing_dir(l, &pos, &d, &path) && d.ino == 0 && !*path);
  assert_false(shard_listing_dir(l, &pos, &d, &path));
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

/* The header, and what opening reads: the file ends before a fence. */
static void files(void **state) {
  (void)state;
  struct subject s;
  make_aligned(&s);
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
        struct shard_dir d;
        const uint8_t *pos = NULL;
        const char *path;
        for (size_t seen = 0; shard_listing_dir(l, &pos, &d, &path); seen++) {
          assert_true(seen <= l->header->dirs.size && strlen(path) <= s.size);
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
      cmocka_unit_test(refused),  cmocka_unit_test(pieces), cmocka_unit_test(headers),
      cmocka_unit_test(sections), cmocka_unit_test(files),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
