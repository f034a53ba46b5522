/* SPDX-License-Identifier: MIT */
/*
 * A damaged file, by the public API alone, whatever the format: it is refused, or each answer is
 * right or -EBADMSG. Numbered names and irregular ones, since they are coded differently.
 * Links: listing/writer listing/reader listing/crc32c -lcrypto
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/crc32c.h"
#include "listing/codec.h"
#include "listing/format.h"
#include "names.h"
#include "scratch.h"

#define KINDS 2

/* A good file, kept in memory, and its names; the file on disk is changed in place. */
struct good {
  struct names names;
  uint8_t *bytes;
  size_t size;
  int fd;
};

static void uuids(struct names *s, size_t n) {
  char text[64];
  uint64_t seed = 77;
  for (size_t i = 0; i < n; i++) {
    uint64_t a = unit_random(&seed), b = unit_random(&seed);
    names_add(s, text,
              (size_t)snprintf(text, sizeof(text), "%08x-%04x-%04x-%012llx.bin", (unsigned)a,
                               (unsigned)(a >> 48), (unsigned)(a >> 32) & 0xffff,
                               (unsigned long long)b >> 16));
  }
}

/* In folders, and with gaps when there are many: long runs of consecutive numbers, and short ones.
 */
static void numbered(struct names *s, size_t n) {
  char text[64];
  uint64_t seed = 78;
  for (size_t i = 0; i < n; i++) {
    if (n < 1000 || unit_random(&seed) % 250) {
      names_add(
          s, text,
          (size_t)snprintf(text, sizeof(text), "d%02zu/img_%07zu_of_0900000.jpeg", i / 5000, i));
    }
  }
}

static void make(struct good *g, int kind, size_t count, bool attributes) {
  char digest[65];
  uint64_t bytes;
  memset(g, 0, sizeof(*g));
  if (kind == 0) {
    numbered(&g->names, count);
  } else {
    uuids(&g->names, count);
  }
  names_sort(&g->names, 0);
  assert_int_equal(names_write_as(&g->names, 0, attributes, file, digest, &bytes), 0);
  g->size = bytes;
  g->bytes = malloc(g->size);
  g->fd = open(file, O_RDWR | O_CLOEXEC);
  assert_int_equal(pread(g->fd, g->bytes, g->size, 0), g->size);
}

static void drop(struct good *g) {
  names_free(&g->names);
  free(g->bytes);
  close(g->fd);
  unlink(file);
}

static void put(const struct good *g, size_t at, const uint8_t *data, size_t size) {
  assert_int_equal(pwrite(g->fd, data, size, (off_t)at), size);
}

/* `most` names in a row from position `from`, by a cursor. */
static void ask_row(const struct names *s, const struct shard_listing *l, size_t from,
                    size_t most) {
  static struct shard_cursor c;
  const char *name;
  int rc = shard_listing_seek(&c, l, from);
  assert_true(rc == 0 || rc == -EBADMSG);
  for (size_t i = from; rc == 0 && i < from + most; i++) {
    ssize_t n = shard_listing_next(&c, &name);
    if (n == -EBADMSG) { /* and so it stays */
      assert_int_equal(shard_listing_next(&c, &name), -EBADMSG);
      break;
    }
    if (i == s->count) {
      assert_int_equal(n, 0);
      break;
    }
    assert_int_equal(n, strlen(s->v[i]));
    assert_string_equal(name, s->v[i]);
  }
}

static void ask_one(const struct names *s, const struct shard_listing *l, size_t i) {
  char buf[128], small[8];
  ssize_t n = shard_listing_name(l, i, buf, sizeof(buf));
  if (n != -EBADMSG) {
    assert_int_equal(n, strlen(s->v[i]));
    assert_string_equal(buf, s->v[i]);
  }
  int64_t at = shard_listing_find(l, s->v[i]);
  assert_true(at == -EBADMSG || at == (int64_t)i); /* it is not absent */
  memset(small, 'Z', sizeof(small));
  n = shard_listing_name(l, i, small, sizeof(small));
  assert_true(n == -ERANGE || n == -EBADMSG);
  assert_memory_equal(small, "ZZZZZZZZ", sizeof(small));
}

/* True if the file could be opened. Around position `near` more is asked; `all`: everything. */
static bool ask(const struct good *g, size_t near, bool all, uint64_t *seed) {
  const struct names *s = &g->names;
  struct shard_listing *l;
  errno = 4242;
  int rc = shard_listing_open(file, &l);
  assert_int_equal(errno, 4242);
  if (rc != 0) {
    assert_true(rc == -EBADMSG || rc == -EPROTONOSUPPORT);
    return false;
  }
  assert_int_equal(shard_listing_count(l), s->count);
  assert_int_equal(shard_listing_name(l, s->count, (char[2]){0}, 2), -EINVAL);
  static const char *const absent[] = {"", "img_", "not there", "\xff\xff", "00000000-"};
  for (size_t k = 0; k < COUNT(absent); k++) {
    int64_t at = shard_listing_find(l, absent[k]);
    assert_true(at == -ENOENT || at == -EBADMSG);
  }
  size_t from = all || near < 200 ? 0 : near - 200;
  ask_row(s, l, from, all ? s->count + 1 : 400);
  for (size_t k = 0; k < (all ? 0 : 12); k++) {
    size_t i = unit_random(seed) % s->count;
    ask_one(s, l, i);
    ask_row(s, l, i, 3);
  }
  for (size_t i = 0; all && i < s->count; i++) {
    ask_one(s, l, i);
    if (i % 40 == 0) {
      ask_row(s, l, i, 100);
    }
  }
  shard_listing_close(l);
  assert_int_equal(errno, 4242);
  return true;
}

static void every_byte(void **state) {
  (void)state;
  uint64_t seed = 3;
  for (int kind = 0; kind < KINDS; kind++) {
    struct good g;
    make(&g, kind, kind ? 66 : 300, false);
    assert_true(ask(&g, 0, true, &seed));
    size_t refused = 0;
    for (size_t i = 0; i < g.size; i += UNIT_PART) {
      uint8_t masks[] = {0x01, 0xff, (uint8_t)(1 + unit_random(&seed) % 255)};
      for (size_t m = 0; m < COUNT(masks); m++) {
        uint8_t bad = g.bytes[i] ^ masks[m];
        put(&g, i, &bad, 1);
        refused += !ask(&g, 0, (i + m) % 8 == 0, &seed);
      }
      put(&g, i, &g.bytes[i], 1);
    }
    assert_true(refused > 1000 / UNIT_PART); /* all of the header, for one */
    assert_true(ask(&g, 0, true, &seed));
    drop(&g);
  }
}

static void every_length(void **state) {
  (void)state;
  uint64_t seed = 4;
  for (int kind = 0; kind < KINDS; kind++) {
    struct good g;
    make(&g, kind, kind ? 66 : 300, true);
    for (size_t n = g.size; n-- > 0; n -= n < UNIT_PART ? n : UNIT_PART - 1) {
      assert_int_equal(ftruncate(g.fd, (off_t)n), 0);
      assert_false(ask(&g, 0, true, &seed));
    }
    put(&g, 0, g.bytes, g.size);
    assert_true(ask(&g, 0, true, &seed));
    uint8_t more[300];
    for (size_t i = 0; i < sizeof(more); i++) {
      more[i] = (uint8_t)unit_random(&seed);
    }
    const uint8_t *const tails[] = {more, (const uint8_t[300]){0}, g.bytes, g.bytes + g.size - 300};
    for (size_t t = 0; t < COUNT(tails); t++) {
      for (size_t n = 1; n <= sizeof(more); n += 1 + n / 4) {
        put(&g, g.size, tails[t], n);
        assert_false(ask(&g, 0, true, &seed));
        assert_int_equal(ftruncate(g.fd, (off_t)g.size), 0);
      }
    }
    put(&g, g.size, g.bytes, g.size); /* twice */
    assert_false(ask(&g, 0, true, &seed));
    drop(&g);
  }
}

/* A few bytes copied over those before or behind them. */
static void neighbours(void **state) {
  (void)state;
  uint64_t seed = 5;
  static const size_t lengths[] = {1, 2, 5, 12};
  for (int kind = 0; kind < KINDS; kind++) {
    struct good g;
    make(&g, kind, kind ? 66 : 300, true);
    size_t changed = 0;
    for (size_t k = 0; k < COUNT(lengths); k++) {
      size_t n = lengths[k];
      for (size_t i = 0; i + 2 * n <= g.size; i += UNIT_PART) {
        const uint8_t *a = g.bytes + i, *b = a + n;
        if (memcmp(a, b, n) == 0) {
          continue;
        }
        changed++;
        put(&g, i, b, n);
        ask(&g, 0, changed % 64 == 0, &seed);
        put(&g, i, a, n);
        put(&g, i + n, a, n);
        ask(&g, 0, changed % 64 == 0, &seed);
        put(&g, i + n, b, n);
      }
    }
    assert_true(changed > 3000 / UNIT_PART);
    assert_true(ask(&g, 0, true, &seed));
    drop(&g);
  }
}

/* Of one kind; the bytes changed are from *at to *end. */
static void change(const struct good *g, uint8_t *bad, uint64_t *seed, size_t *at, size_t *end) {
  size_t how = unit_random(seed) % 6, n = 1 + unit_random(seed) % (how < 2 ? 4 : 700);
  /* mostly behind the header, or nothing gets past open */
  size_t header = unit_random(seed) % 8 && g->size > 2 * sizeof(struct shard_header)
                      ? sizeof(struct shard_header)
                      : 0;
  n = n < g->size / 4 ? n : g->size / 4;
  size_t to = header + unit_random(seed) % (g->size - n - header);
  size_t from = unit_random(seed) % (g->size - n);
  for (size_t i = 0; i < n; i++) {
    switch (how) {
    case 0: /* a bit of each */
      bad[to + i] ^= (uint8_t)(1u << (unit_random(seed) % 8));
      break;
    case 1:
    case 2: /* random bytes, few or many */
      bad[to + i] = (uint8_t)unit_random(seed);
      break;
    case 3: /* a hole */
      bad[to + i] = 0;
      break;
    default: /* a piece of elsewhere, near or far */
      bad[to + i] = how == 4 || to < 100 + n ? g->bytes[from + i] : g->bytes[to - 100 + i];
    }
  }
  *at = to < *at ? to : *at;
  *end = to + n > *end ? to + n : *end;
}

static void random_changes(void **state) {
  (void)state;
  uint64_t seed = 6;
  for (int kind = 0; kind < KINDS; kind++) {
    struct good g;
    make(&g, kind, kind ? 8000 : 40000, kind == 1);
    uint8_t *bad = malloc(g.size);
    memcpy(bad, g.bytes, g.size);
    size_t opened = 0;
    for (int round = 0; round < 10000 / UNIT_PART; round++) {
      size_t at = g.size, end = 0;
      for (size_t k = 0; k < 1 + (unit_random(&seed) % 4) / 3; k++) {
        change(&g, bad, &seed, &at, &end);
      }
      put(&g, at, bad + at, end - at);
      size_t near = (size_t)((double)at / (double)g.size * (double)g.names.count);
      opened += ask(&g, near, round % 5000 == 0, &seed);
      memcpy(bad + at, g.bytes + at, end - at);
      put(&g, at, g.bytes + at, end - at);
    }
    assert_true(opened > 1000 / UNIT_PART); /* or little was asked */
    assert_true(ask(&g, 0, true, &seed));
    free(bad);
    drop(&g);
  }
}

/* Whole and with a good checksum, but of another version. */
static void other_versions(void **state) {
  (void)state;
  struct good g;
  struct shard_listing *l;
  struct shard_header h;
  make(&g, 1, 66, true);
  const uint32_t versions[] = {0, 1, SHARD_FORMAT_VERSION - 1, SHARD_FORMAT_VERSION + 1,
                               UINT32_MAX};
  for (size_t k = 0; k < COUNT(versions); k++) {
    memcpy(&h, g.bytes, sizeof(h));
    h.version = versions[k];
    h.header_crc = 0;
    h.header_crc = shard_crc32c(0, &h, sizeof(h));
    put(&g, 0, (const uint8_t *)&h, sizeof(h));
    assert_int_equal(shard_listing_open(file, &l), -EPROTONOSUPPORT);
  }
  /* and so is one of the other byte order */
  memcpy(&h, g.bytes, sizeof(h));
  h.endian = __builtin_bswap32(h.endian);
  put(&g, 0, (const uint8_t *)&h, sizeof(h));
  assert_int_equal(shard_listing_open(file, &l), -EPROTONOSUPPORT);
  drop(&g);
}

/* In the order of a manifest, with what comes more often: by position, not by name. */
static void order_kept(void **state) {
  (void)state;
  static const char *const few[] = {"b", "a", "b", "b", "c/d", "a"};
  struct names s = {0};
  char digest[65], buf[128];
  uint64_t bytes;
  struct shard_listing *l;
  for (size_t i = 0; i < 1000; i++) {
    names_add(&s, few[i % COUNT(few)], strlen(few[i % COUNT(few)]));
  }
  assert_int_equal(names_write_as(&s, SHARD_ORDER_KEEP, false, file, digest, &bytes), 0);
  assert_int_equal(shard_listing_open(file, &l), 0);
  assert_int_equal(shard_listing_count(l), s.count);
  for (size_t i = 0; i < s.count; i++) {
    assert_int_equal(shard_listing_name(l, i, buf, sizeof(buf)), strlen(s.v[i]));
    assert_string_equal(buf, s.v[i]);
  }
  ask_row(&s, l, 0, s.count + 1);
  assert_int_equal(shard_listing_find(l, "a"), -ENOTSUP);
  assert_int_equal(shard_listing_find(l, "not there"), -ENOTSUP);
  assert_int_equal(shard_listing_find(l, ""), -ENOTSUP);
  shard_listing_close(l);
  names_free(&s);
  unlink(file);
}

/* What is no listing, or cannot be opened, has the error of its own. */
static void no_listing(void **state) {
  (void)state;
  struct shard_listing *l = NULL;
  char path[80];
  snprintf(path, sizeof(path), "%s/fifo", dir);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(shard_listing_open(path, &l), -EBADMSG); /* and does not wait */
  unlink(path);
  assert_int_equal(shard_listing_open(path, &l), -ENOENT);
  assert_int_equal(shard_listing_open("", &l), -ENOENT);
  assert_int_equal(shard_listing_open(dir, &l), -EISDIR);
  assert_int_equal(shard_listing_open("/dev/null", &l), -EBADMSG);
  assert_int_equal(shard_listing_open("/dev/zero", &l), -EBADMSG);
  assert_int_equal(shard_listing_open("/dev/null/x", &l), -ENOTDIR);
  assert_int_equal(symlink("loop", path), 0);
  char loop[80];
  snprintf(loop, sizeof(loop), "%s/loop", dir);
  assert_int_equal(symlink("fifo", loop), 0);
  assert_int_equal(shard_listing_open(loop, &l), -ELOOP);
  unlink(loop);
  unlink(path);
  assert_null(l);
  shard_listing_close(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_byte),     cmocka_unit_test(every_length),
      cmocka_unit_test(neighbours),     cmocka_unit_test(random_changes),
      cmocka_unit_test(other_versions), cmocka_unit_test(order_kept),
      cmocka_unit_test(no_listing),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
