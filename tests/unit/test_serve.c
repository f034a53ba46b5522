/* SPDX-License-Identifier: MIT */
/*
 * Names that are longer than struct dirent has room for, as buckets, FUSE and FAT have them: they
 * pass through a hashed stream and its window whole, and harm nothing. And a listing whose names
 * are shorter than the directory that they are said to lie in: damage.
 *
 * Links: view, shard, host/real.o
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/real.h"
#include "names.h"
#include "scratch.h"
#include "shard/shard.h"
#include "unit.h"
#include "view/serve.h"
#include "view/window.h"

#define NAMES 40

/* The k-th name: up to a key's 1024 bytes. */
static size_t name_of(unsigned k, char name[PATH_MAX]) {
  size_t length = 1 + 1023U * k / (NAMES - 1);
  memset(name, 'a' + (int)(k % 26), length);
  name[length] = 0;
  return length;
}

static struct dirent64 *entry_of(unsigned k, char *room) {
  char name[PATH_MAX];
  struct dirent64 *d = (struct dirent64 *)room;
  size_t length = name_of(k, name);
  size_t record = (offsetof(struct dirent64, d_name) + length + 1 + 7) & ~(size_t)7;
  memset(room, 0, record);
  d->d_ino = k + 1;
  d->d_off = k + 1;
  d->d_type = DT_REG;
  d->d_reclen = (unsigned short)record;
  memcpy(room + offsetof(struct dirent64, d_name), name, length);
  return d;
}

static bool is_whole(const struct dirent64 *d, unsigned k) {
  char name[PATH_MAX];
  name_of(k, name);
  return strcmp((const char *)d + offsetof(struct dirent64, d_name), name) == 0;
}

static void window(void **state) {
  char room[2048] __attribute__((aligned(8)));
  struct shard_window *w = shard_window_new(5, 16);
  (void)state;
  assert_non_null(w);
  for (unsigned round = 0; round < 2; round++) { /* the first is broken off */
    bool seen[NAMES] = {false};
    unsigned put = 0, taken = 0;
    shard_window_reset(w, round);
    for (;;) {
      while (shard_window_wants(w)) {
        assert_int_equal(shard_window_put(w, put < NAMES ? entry_of(put, room) : NULL), 0);
        put++;
      }
      const struct dirent64 *d = shard_window_take(w);
      if (!d || (round == 0 && taken == NAMES / 2)) {
        break;
      }
      unsigned k = (unsigned)d->d_ino - 1;
      assert_true(k < NAMES && !seen[k] && is_whole(d, k));
      assert_int_equal(d->d_off, ++taken);
      seen[k] = true;
    }
    assert_int_equal(taken, round == 0 ? NAMES / 2 : NAMES);
  }
  shard_window_free(w);
}

/* Of all entries what fits, from the one that the "directory" is at. */
static unsigned at;
static ssize_t long_names(int fd, void *buf, size_t size) {
  char room[2048] __attribute__((aligned(8)));
  size_t used = 0;
  (void)fd;
  for (; at < NAMES; at++) {
    const struct dirent64 *d = entry_of(at, room);
    if (used + d->d_reclen > size) {
      break;
    }
    memcpy((char *)buf + used, room, d->d_reclen);
    used += d->d_reclen;
  }
  return (ssize_t)used;
}

static void stream(void **state) {
  static char buf[8192] __attribute__((aligned(8)));
  const struct shard_options options = {.hidden = true};
  struct shard_served_dir *s = calloc(1, sizeof(*s) + 8);
  unsigned seen[NAMES] = {0};
  (void)state;
  assert_non_null(s);
  s->source = SHARD_SERVE_HASHED;
  s->options = &options;
  s->stats = -1;
  strcpy(s->path, "d/e/");
  s->path_bytes = 4;
  typeof(&getdents64) real = shard_real()->getdents64;
  shard_real_table.getdents64 = long_names;
  for (uint32_t rank = 0; rank < 2; rank++) {
    ssize_t n;
    at = 0;
    shard_share_init(&s->share, SHARD_STRATEGY_HASH, SHARD_REMAINDER_KEEP, rank, 2, 0, 0);
    while ((n = shard_serve_filtered(s, -1, buf, sizeof(buf))) > 0) {
      for (ssize_t p = 0; p < n;) {
        const struct dirent64 *d = (const struct dirent64 *)(buf + p);
        unsigned k = (unsigned)d->d_ino - 1;
        assert_true(k < NAMES && is_whole(d, k));
        seen[k]++;
        p += d->d_reclen;
      }
    }
    assert_int_equal(n, 0);
  }
  shard_real_table.getdents64 = real;
  for (unsigned k = 0; k < NAMES; k++) {
    assert_int_equal(seen[k], 1);
  }
  free(s);
}

static void short_names(void **state) {
  static char buf[8192] __attribute__((aligned(8)));
  struct names names = {0};
  struct shard_listing *listing;
  char digest[65];
  uint64_t bytes;
  (void)state;
  names_run(&names, "d/e/", 1, 0, 9, "");
  names_sort(&names, 0);
  assert_int_equal(names_write_as(&names, 0, true, file, digest, &bytes), 0);
  assert_int_equal(shard_listing_map(open(file, O_RDONLY | O_CLOEXEC), file, &listing), 0);
  struct shard_served_dir *s = calloc(1, sizeof(*s) + 64);
  assert_non_null(s);
  s->stats = -1;
  s->scope = (struct shard_scope){.listing = listing, .end = names.count};
  shard_share_init(&s->share, SHARD_STRATEGY_RANGE, SHARD_REMAINDER_KEEP, 0, 1, names.count, 0);
  int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (s->path_bytes = 0; s->path_bytes < 64; s->path_bytes++) {
    off_t position = 2; /* behind the dots */
    ssize_t n = shard_serve_listed(s, fd, buf, sizeof(buf), &position);
    if (s->path_bytes == 4) {
      assert_true(n > 0);
    } else if (s->path_bytes > 4) {
      assert_int_equal(n, -EBADMSG);
    }
  }
  close(fd);
  free(s);
  shard_listing_close(listing);
  names_free(&names);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(window), cmocka_unit_test(stream),
                                     cmocka_unit_test(short_names)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
