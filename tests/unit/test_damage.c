/* SPDX-License-Identifier: MIT */
/*
 * A damaged listing gives an error or right answers: never a crash, never a wrong name.
 * Links: listing/writer listing/spool listing/facts listing/reader listing/names listing/crc32c
 * -lcrypto
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/crc32c.h"
#include "listing/format.h"
#include "listing/listing.h"
#include "names.h"
#define SCRATCH "/dev/shm" /* many writes */
#include "scratch.h"

/* A good file, kept in memory, and its names. */
struct good {
  struct names names, others;
  uint8_t *bytes;
  size_t size;
};

/* `what`: 0 short names without runs, by path; 1 odd ones, by basename; 2 with runs, by path. */
static void make(struct good *g, size_t count, int what) {
  char digest[65];
  uint64_t bytes;
  int order = what == 1;
  if (what == 2) {
    names_run(&g->names, "a/img_", 4, 0, count, ".jpeg");
    names_run(&g->names, "b/img_", 4, 0, count / 2, ".jpeg");
    names_run(&g->names, "b/img_", 4, count / 2 + 2, count, ".jpeg");
    names_odd(&g->names, 3 * count, 3);
  } else if (order) {
    names_odd(&g->names, count, 3);
  } else {
    char text[32];
    for (size_t i = 0; i < count; i++) {
      names_add(&g->names, text, (size_t)snprintf(text, sizeof(text), "d%zu/%03zu.x", i % 2, i));
    }
  }
  names_sort(&g->names, order);
  names_others(&g->names, order, &g->others);
  assert_int_equal(names_write(&g->names, order, file, digest, &bytes), 0);
  g->size = bytes;
  g->bytes = malloc(g->size);
  FILE *f = fopen(file, "rb");
  assert_int_equal(fread(g->bytes, 1, g->size, f), g->size);
  fclose(f);
}

static void drop(struct good *g) {
  names_free(&g->names);
  names_free(&g->others);
  free(g->bytes);
  unlink(file);
}

static void put(const uint8_t *bytes, size_t size) {
  int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, bytes, size), size);
  close(fd);
}

/* A table, of which the file's header has not been damaged; `first` of names_ino(). */
static void ask_table(const struct shard_table *t, const struct names *s, size_t first,
                      size_t step) {
  static char name[3 * SHARD_NAME_MAX];
  static struct shard_attributes a;
  struct shard_position p = {.name = name};
  assert_int_equal(t->count, s->count);
  for (size_t i = 0; i <= s->count; i += step) {
    int rc = shard_names_seek(&p, t, i);
    assert_true(rc == 0 || rc == -EBADMSG);
    rc = rc ? rc : shard_names_next(&p);
    if (rc != -EBADMSG) {
      assert_int_equal(rc, i < s->count);
      assert_true(i == s->count || strcmp(name, s->v[i]) == 0);
    }
    if (i == s->count) {
      break;
    }
    int64_t at = shard_names_lower_bound(t, s->v[i], strlen(s->v[i]));
    assert_true(at == -EBADMSG || at == (int64_t)i);
  }
  for (uint64_t block = 0; block < shard_listing_attribute_blocks(t->count); block++) {
    memset(&a, 0x5a, sizeof(a));
    int rc = shard_names_attributes(t, block, &a);
    assert_true(rc == 0 || rc == -EBADMSG);
    for (size_t i = block * SHARD_BLOCK_NAMES;
         rc == 0 && i < s->count && i / SHARD_BLOCK_NAMES == block; i++) {
      assert_true(a.ino[i % SHARD_BLOCK_NAMES] == names_ino(first + i));
      assert_int_equal(a.type[i % SHARD_BLOCK_NAMES], names_type(first + i));
    }
  }
}

/* Ask everything. `step`: every how many names. */
static void ask_listing(const struct good *g, const struct shard_listing *l, size_t step) {
  static char buf[SHARD_NAME_MAX];
  static struct shard_cursor c;
  const struct names *s = &g->names;
  int rc;
  assert_int_equal(shard_listing_count(l), s->count);
  for (size_t i = 0; i < s->count; i += step) {
    ssize_t n = shard_listing_name(l, i, buf, sizeof(buf));
    if (n != -EBADMSG) {
      assert_int_equal(n, strlen(s->v[i]));
      assert_string_equal(buf, s->v[i]);
    }
    int64_t at = shard_listing_find(l, s->v[i]);
    assert_true(at == -EBADMSG || at == (int64_t)i);
    n = shard_listing_name(l, i, buf, strlen(s->v[i]));
    assert_true(n == -ERANGE || n == -EBADMSG);
  }
  static const char *const absent[] = {"", "img_", "not there", "\xff\xff\xff\xff\xff",
                                       "00000000-"};
  for (size_t k = 0; k < COUNT(absent); k++) {
    int64_t at = shard_listing_find(l, absent[k]);
    assert_true(at == -EBADMSG || at == -ENOENT);
  }
  const char *name;
  for (size_t from = 0; from < s->count; from += step * 50) {
    rc = shard_listing_seek(&c, l, from);
    assert_true(rc == 0 || rc == -EBADMSG);
    for (size_t i = from; rc == 0; i++) {
      ssize_t n = shard_listing_next(&c, &name);
      if (n < 0) { /* and so it stays */
        assert_int_equal(n, -EBADMSG);
        assert_int_equal(shard_listing_next(&c, &name), -EBADMSG);
        break;
      }
      if (n == 0) {
        assert_int_equal(i, s->count);
        break;
      }
      assert_true(i < s->count);
      assert_string_equal(name, s->v[i]);
    }
  }
  ask_table(&l->names, s, 0, step);
  ask_table(&l->others, &g->others, 1000, step);
  const uint8_t *pos = NULL;
  const char *path;
  struct shard_dir id;
  uint64_t seen = 0;
  for (; shard_listing_dir(l, &pos, &id, &path); seen++) {
    assert_true(seen < 2 && id.ino == (seen ? 6 : 2));
    assert_string_equal(path, seen ? "sub" : "");
  }
  assert_int_equal(seen, 2); /* opening has checked them */
  rc = shard_listing_verify(l);
  assert_true(rc == 0 || rc == -EBADMSG);
}

/* True if the file could be opened. */
static bool ask(const struct good *g, size_t step) {
  struct shard_listing *l;
  errno = 4242;
  int rc = shard_listing_open(file, &l);
  assert_int_equal(errno, 4242);
  if (rc != 0) {
    assert_true(rc == -EBADMSG || rc == -EPROTONOSUPPORT);
    return false;
  }
  ask_listing(g, l, step);
  shard_listing_close(l);
  assert_int_equal(errno, 4242);
  return true;
}

static void every_byte(void **state) {
  (void)state;
  for (int what = 0; what < 3; what++) {
    struct good g = {0};
    make(&g, what == 2 ? 130 : 66, what);
    assert_true(ask(&g, 1));
    size_t refused = 0;
    /* The attributes of the last kind are those of the others over again. */
    const struct shard_header *h = (const struct shard_header *)g.bytes;
    size_t from = h->names.attributes.offset, to = from + h->names.attributes.size;
    for (size_t i = 0; i < g.size; i += what == 2 && i >= from && i < to ? 29 : UNIT_PART) {
      const uint8_t masks[] = {0x01, 0xff, (uint8_t)(2 + i * 7 % 253)};
      for (size_t m = 0; m < COUNT(masks); m++) {
        g.bytes[i] ^= masks[m];
        put(g.bytes, g.size);
        refused += !ask(&g, 7);
        g.bytes[i] ^= masks[m];
      }
    }
    assert_true(refused >= 2 * (sizeof(struct shard_header) / UNIT_PART));
    drop(&g);
  }
}

static void every_length(void **state) {
  (void)state;
  struct good g = {0};
  make(&g, 66, 0);
  for (size_t n = 0; n < g.size; n += UNIT_PART) {
    put(g.bytes, n);
    assert_false(ask(&g, 1));
  }
  /* Behind its end: zeros, its own bytes, others; and all of it once more. */
  uint8_t *more = malloc(3 * g.size);
  for (int tail = 0; tail < 3; tail++) {
    for (size_t i = 0; i < 3 * g.size; i++) {
      more[i] = i < g.size || tail == 1 ? g.bytes[i % g.size] : tail ? (uint8_t)(i * 31 >> 3) : 0;
    }
    for (size_t n = 1; n <= g.size; n += 1 + n / 4) {
      put(more, g.size + n);
      assert_false(ask(&g, 1));
    }
    put(more, 2 * g.size);
    assert_false(ask(&g, 1));
  }
  free(more);
  drop(&g);
}

/* A few bytes copied over those before or behind them. */
static void neighbours(void **state) {
  (void)state;
  static const size_t lengths[] = {1, 2, 5, 12};
  for (int what = 0; what < 3; what++) {
    struct good g = {0};
    make(&g, 66, what);
    uint8_t *bad = malloc(g.size);
    memcpy(bad, g.bytes, g.size);
    size_t changed = 0;
    for (size_t k = 0; k < COUNT(lengths); k++) {
      size_t n = lengths[k];
      for (size_t i = 0; i + 2 * n <= g.size; i += UNIT_PART) {
        for (int back = 0; back < 2 && memcmp(g.bytes + i, g.bytes + i + n, n) != 0; back++) {
          size_t to = back ? i : i + n;
          memcpy(bad + to, g.bytes + (back ? i + n : i), n);
          put(bad, g.size);
          ask(&g, 31);
          memcpy(bad + to, g.bytes + to, n);
          changed++;
        }
      }
    }
    assert_true(changed > 5000 / UNIT_PART);
    free(bad);
    drop(&g);
  }
}

/* Whole blocks, and their entries in the tables, in the place of others. */
static void blocks_swapped(void **state) {
  (void)state;
  struct good g = {0};
  make(&g, 640, 0);
  struct shard_header h;
  memcpy(&h, g.bytes, sizeof(h));
  const uint8_t *index = g.bytes + h.names.index.offset;
  size_t at = h.names.names.offset, entry = SHARD_INDEX_ENTRY;
  uint64_t blocks = h.names.blocks, offsets[16];
  for (uint64_t i = 0; i <= blocks; i++) {
    memcpy(&offsets[i], index + i * entry, sizeof(offsets[i]));
  }
  uint8_t *bad = malloc(g.size);
  size_t same_size = 0;
  for (uint64_t a = 0; a < blocks; a++) {
    for (uint64_t b = 0; b < blocks; b++) {
      if (a == b) {
        continue;
      }
      uint64_t size_a = offsets[a + 1] - offsets[a], size_b = offsets[b + 1] - offsets[b];
      /* the bytes, as far as they fit */
      memcpy(bad, g.bytes, g.size);
      memcpy(bad + at + offsets[b], g.bytes + at + offsets[a], size_a < size_b ? size_a : size_b);
      put(bad, g.size);
      assert_true(ask(&g, 5));
      /* with the checksum */
      memcpy(bad + h.names.index.offset + b * entry + 8, index + a * entry + 8, 4);
      put(bad, g.size);
      assert_true(ask(&g, 5));
      same_size += size_a == size_b;
      /* the table points to another block, with its checksum */
      memcpy(bad, g.bytes, g.size);
      memcpy(bad + h.names.index.offset + b * entry, &offsets[a], 8);
      memcpy(bad + h.names.index.offset + (b + 1) * entry, &offsets[a + 1], 8);
      memcpy(bad + h.names.index.offset + b * entry + 8, index + a * entry + 8, 4);
      put(bad, g.size);
      assert_true(ask(&g, 5));
    }
  }
  assert_true(same_size > 10); /* or the second case says little */
  free(bad);
  drop(&g);
}

/* Blocks of attributes, with their checksums, in the place of others: of either table. */
static void attributes_swapped(void **state) {
  (void)state;
  struct good g = {0};
  make(&g, 640, 0);
  struct shard_header h;
  memcpy(&h, g.bytes, sizeof(h));
  uint8_t *bad = malloc(g.size);
  const struct shard_table_header *all[] = {&h.names, &h.others};
  size_t entry = SHARD_INDEX_ENTRY, tried = 0;
  for (size_t from = 0; from < 2; from++) {
    for (size_t to = 0; to < 2; to++) {
      const struct shard_table_header *f = all[from], *t = all[to];
      for (uint64_t a = 0; a < shard_listing_attribute_blocks(f->count); a++) {
        for (uint64_t b = 0; b < shard_listing_attribute_blocks(t->count); b++) {
          const uint8_t *entry_a = g.bytes + f->attribute_index.offset + a * entry;
          const uint8_t *entry_b = g.bytes + t->attribute_index.offset + b * entry;
          uint64_t at_a, end_a, at_b, end_b;
          memcpy(&at_a, entry_a, 8);
          memcpy(&end_a, entry_a + entry, 8);
          memcpy(&at_b, entry_b, 8);
          memcpy(&end_b, entry_b + entry, 8);
          size_t size = end_a - at_a < end_b - at_b ? end_a - at_a : end_b - at_b;
          memcpy(bad, g.bytes, g.size);
          memcpy(bad + t->attributes.offset + at_b, g.bytes + f->attributes.offset + at_a, size);
          put(bad, g.size);
          assert_true(ask(&g, 17));
          if (from != to && a == b && end_a - at_a == end_b - at_b) {
            continue; /* of one number and size: seeded alike, so its checksum holds */
          }
          memcpy(bad + (entry_b - g.bytes) + 8, entry_a + 8, 4);
          put(bad, g.size);
          assert_true(ask(&g, 17));
          tried++;
        }
      }
    }
  }
  assert_true(tried > 100);
  free(bad);
  drop(&g);
}

/* Change n bytes of a listing, in a way that `how` tells. */
static void change(const struct good *g, uint8_t *bad, size_t at, size_t n, unsigned how,
                   uint64_t *seed) {
  size_t from = unit_random(seed) % g->size;
  for (size_t i = 0; i < n && at + i < g->size; i++) {
    switch (how) {
    case 0: /* a bit of each */
      bad[at + i] ^= (uint8_t)(1u << (unit_random(seed) % 8));
      break;
    case 1: /* a hole */
      bad[at + i] = 0;
      break;
    case 2: /* a piece of elsewhere, far or near */
      bad[at + i] = g->bytes[(from + i) % g->size];
      break;
    case 3:
      bad[at + i] = g->bytes[at + i < 100 ? at : at + i - 100];
      break;
    default:
      bad[at + i] = (uint8_t)unit_random(seed);
    }
  }
}

static void random_changes_of(int what) {
  struct good g = {0};
  make(&g, 1500, what);
  uint8_t *bad = malloc(g.size);
  uint64_t seed = 99;
  size_t opened = 0;
  for (int round = 0; round < 6000 / UNIT_PART; round++) {
    memcpy(bad, g.bytes, g.size);
    /* mostly behind the header, or nothing gets past open */
    size_t header = unit_random(&seed) % 8 ? sizeof(struct shard_header) : 0;
    size_t changes = 1 + unit_random(&seed) % (round % 3 ? 2 : 20);
    for (size_t k = 0; k < changes; k++) {
      size_t at = header + unit_random(&seed) % (g.size - header);
      change(&g, bad, at, unit_random(&seed) % 4 ? 1 : unit_random(&seed) % 700,
             (unsigned)(unit_random(&seed) % 6), &seed);
    }
    put(bad, g.size);
    opened += ask(&g, 97);
  }
  assert_true(opened > 1000 / UNIT_PART); /* or little was asked */
  free(bad);
  drop(&g);
}

static void random_changes(void **state) {
  (void)state;
  random_changes_of(0);
  random_changes_of(1);
  random_changes_of(2);
}

/* Extents, with their records' places and checksums, in the place of others. */
static void extents_swapped(void **state) {
  (void)state;
  struct good g = {0};
  make(&g, 130, 2);
  struct shard_header h;
  memcpy(&h, g.bytes, sizeof(h));
  uint8_t *bad = malloc(g.size), *all = g.bytes + h.names.extent.offset;
  assert_true(h.names.extents >= 4);
  for (uint64_t a = 0; a < h.names.extents; a++) {
    for (uint64_t b = 0; b < h.names.extents; b++) {
      memcpy(bad, g.bytes, g.size);
      memcpy(bad + h.names.extent.offset + b * sizeof(struct shard_extent),
             all + a * sizeof(struct shard_extent), sizeof(struct shard_extent));
      put(bad, g.size);
      assert_true(ask(&g, 3));
      /* its record alone */
      struct shard_extent x, y;
      memcpy(&x, all + a * sizeof(x), sizeof(x));
      memcpy(&y, all + b * sizeof(y), sizeof(y));
      memcpy(bad, g.bytes, g.size);
      size_t size = x.size < y.size ? x.size : y.size, records = h.names.extents * sizeof(x);
      memcpy(bad + h.names.extent.offset + records + y.where, all + records + x.where, size);
      put(bad, g.size);
      assert_true(ask(&g, 3));
    }
  }
  free(bad);
  drop(&g);
}

/* Bytes of another file in place of a file's, behind its header: as pages come from another host.
 */
static void files_mixed(void **state) {
  (void)state;
  struct good g = {0}, other = {0};
  struct shard_listing *l, *whole;
  make(&other, 5800, 1);
  make(&g, 6000, 1);
  uint8_t *mixed = malloc(g.size);
  /* From the front, from the back, and pieces in between. */
  for (size_t piece = 4096; piece <= g.size; piece *= 3) {
    for (size_t odd = 0; odd < 2; odd++) {
      memcpy(mixed, g.bytes, g.size);
      for (size_t at = odd * piece; at < g.size; at += 2 * piece) {
        size_t end = at + piece < g.size ? at + piece : g.size;
        end = end < other.size ? end : other.size;
        if (at < end) {
          memcpy(mixed + at, other.bytes + at, end - at);
        }
      }
      memcpy(mixed, g.bytes, sizeof(struct shard_header));
      put(mixed, g.size);
      assert_true(ask(&g, 301));
    }
  }
  /* The same names once more: another file. */
  names_free(&g.others);
  put(g.bytes, g.size);
  assert_int_equal(shard_listing_open(file, &l), 0);
  char digest[65];
  uint64_t bytes;
  struct good again = {.names = g.names};
  names_others(&g.names, 1, &again.others);
  assert_int_equal(names_write(&again.names, 1, file, digest, &bytes), 0);
  assert_int_equal(shard_listing_open(file, &whole), 0);
  assert_int_not_equal(l->header->salt, whole->header->salt);
  shard_listing_close(whole);
  ask_listing(&again, l, 301); /* of the old file, which has no name any more */
  assert_int_equal(shard_listing_verify(l), 0);
  shard_listing_close(l);
  names_free(&again.others);
  free(mixed);
  drop(&other);
  drop(&g);
}

/* Whole and with a good checksum, but of another version, or the other byte order. */
static void other_versions(void **state) {
  (void)state;
  struct good g = {0};
  struct shard_listing *l;
  make(&g, 66, 0);
  struct shard_header *h = (struct shard_header *)g.bytes;
  const uint32_t now = h->version, versions[] = {0, 1, now - 1, now + 1, UINT32_MAX, now};
  for (size_t k = 0; k < COUNT(versions); k++) {
    h->version = versions[k];
    h->endian = versions[k] == now ? __builtin_bswap32(h->endian) : h->endian;
    h->header_crc = 0;
    h->header_crc = shard_crc32c(0, h, sizeof(*h));
    put(g.bytes, g.size);
    assert_int_equal(shard_listing_open(file, &l), -EPROTONOSUPPORT);
  }
  drop(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_byte),     cmocka_unit_test(every_length),
      cmocka_unit_test(blocks_swapped), cmocka_unit_test(attributes_swapped),
      cmocka_unit_test(random_changes), cmocka_unit_test(extents_swapped),
      cmocka_unit_test(files_mixed),    cmocka_unit_test(neighbours),
      cmocka_unit_test(other_versions),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
