/* SPDX-License-Identifier: MIT */
/*
 * The listing file: what the writer was given is what the reader gives back.
 * Links: listing/writer listing/spool listing/facts listing/reader listing/names listing/crc32c
 * -lcrypto
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <openssl/evp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "build/numbered.h"
#include "listing/listing.h"
#include "listing/samples.h"
#include "names.h"
#include "scratch.h"

/* ---- facts, computed another way --------------------------------------------------------------
 */

static bool valid_utf8(const char *name) {
  iconv_t cd = iconv_open("UTF-32LE", "UTF-8");
  assert_true(cd != (iconv_t)-1);
  static char out[4 * SHARD_NAME_MAX];
  char *in = (char *)name, *to = out;
  size_t left = strlen(name), room = sizeof(out);
  bool ok = iconv(cd, &in, &left, &to, &room) != (size_t)-1 && left == 0;
  iconv_close(cd);
  return ok;
}

static void check_facts(const struct names *s, int order, const struct shard_listing *l) {
  struct shard_listing_info i;
  shard_listing_info(l, &i);
  uint32_t min = UINT32_MAX, max = 0, utf8 = 1, dotted = 0, longest = 0;
  uint64_t duplicates = 0;
  uint8_t used[32] = {0};
  char suffix[64] = "";
  for (size_t k = 0; k < s->count; k++) {
    const char *name = s->v[k];
    uint32_t depth = 0;
    for (const char *p = name; *p; p++) {
      depth += *p == '/';
      used[(uint8_t)*p / 8] |= (uint8_t)(1 << (uint8_t)*p % 8);
      dotted |= *p == '.' && (p == name || p[-1] == '/');
    }
    min = depth < min ? depth : min;
    max = depth > max ? depth : max;
    longest = strlen(name) > longest ? (uint32_t)strlen(name) : longest;
    utf8 &= valid_utf8(name);
    duplicates += order && k && strcmp(names_base(name), names_base(s->v[k - 1])) == 0;
  }
  if (s->count) {
    size_t n = strlen(s->v[0]), shared = n < 63 ? n : 63;
    for (size_t k = 1; k < s->count; k++) {
      size_t m = strlen(s->v[k]);
      shared = m < shared ? m : shared;
      while (memcmp(s->v[0] + n - shared, s->v[k] + m - shared, shared) != 0) {
        shared--;
      }
    }
    strcpy(suffix, s->v[0] + n - shared);
  }
  assert_int_equal(i.entries, s->count);
  assert_int_equal(i.order, order);
  assert_int_equal(i.min_depth, s->count ? min : 0);
  assert_int_equal(i.max_depth, max);
  assert_int_equal(i.longest, longest);
  assert_int_equal(i.utf8, utf8);
  assert_int_equal(i.dotted, dotted);
  assert_int_equal(i.duplicates, duplicates);
  assert_memory_equal(i.bytes_used, used, sizeof(used));
  assert_string_equal(i.suffix, suffix);
  assert_int_equal(i.directories, 2);
  assert_int_equal(i.dirs_hidden, 11);
  assert_int_equal(i.dir_links, 12);
  assert_string_equal(i.source, "/source");
  assert_string_equal(i.options, "order=path");
  assert_string_equal(i.file, file);
  struct stat st;
  assert_int_equal(stat(file, &st), 0);
  assert_int_equal(i.bytes, st.st_size);

  EVP_MD_CTX *md = EVP_MD_CTX_new();
  EVP_DigestInit_ex(md, EVP_sha256(), NULL);
  for (size_t k = 0; k < s->count; k++) {
    EVP_DigestUpdate(md, s->v[k], strlen(s->v[k]) + 1);
  }
  uint8_t sum[32];
  char hex[65];
  EVP_DigestFinal_ex(md, sum, NULL);
  EVP_MD_CTX_free(md);
  for (size_t k = 0; k < 32; k++) {
    sprintf(hex + 2 * k, "%02x", sum[k]);
  }
  assert_string_equal(i.digest, hex);
}

static void check_dirs(const struct shard_listing *l) {
  const uint8_t *pos = NULL;
  struct shard_dir d;
  const char *path;
  assert_true(shard_listing_dir(l, &pos, &d, &path));
  assert_string_equal(path, "");
  assert_true(d.ino == 2 && d.mtime_sec == 3 && d.mtime_nsec == 4 && d.image == 7);
  assert_true(shard_listing_dir(l, &pos, &d, &path));
  assert_string_equal(path, "sub");
  assert_true(d.ino == 6 && d.mtime_nsec == 8);
  assert_true(d.ctime_sec == 9 && d.ctime_nsec == 10 && d.image == 11);
  assert_false(shard_listing_dir(l, &pos, &d, &path));
}

/* ---- reading, every way there is
 * ----------------------------------------------------------------- */

static void check_name_and_find(const struct names *s, const struct shard_listing *l) {
  static char buf[SHARD_NAME_MAX + 1];
  for (size_t i = 0; i < s->count; i++) {
    size_t n = strlen(s->v[i]);
    memset(buf, 'Z', n + 2);
    assert_int_equal(shard_listing_name(l, i, buf, n + 1), n);
    assert_memory_equal(buf, s->v[i], n + 1);
    assert_int_equal(buf[n + 1], 'Z');
    assert_int_equal(shard_listing_find(l, s->v[i]), i);
    /* too small by one: nothing written */
    memset(buf, 'Z', n + 1);
    assert_int_equal(shard_listing_name(l, i, buf, n), -ERANGE);
    for (size_t k = 0; k <= n; k++) {
      assert_int_equal(buf[k], 'Z');
    }
    assert_int_equal(shard_listing_name(l, i, buf, 0), -ERANGE);
  }
  uint64_t past[] = {s->count, s->count + 1, s->count + 64, UINT64_MAX};
  for (size_t k = 0; k < COUNT(past); k++) {
    assert_int_equal(shard_listing_name(l, past[k], buf, sizeof(buf)), -EINVAL);
  }
}

static bool holds(const struct names *s, const char *name) {
  for (size_t i = 0; i < s->count; i++) {
    if (strcmp(s->v[i], name) == 0) {
      return true;
    }
  }
  return false;
}

static void check_absent(const struct names *s, const struct shard_listing *l) {
  static char buf[SHARD_NAME_MAX + 2];
  const char *fixed[] = {"", "\x01", "\xff\xff\xff", "/", ".", "zzz", "a/", "no such name"};
  for (size_t k = 0; k < COUNT(fixed); k++) {
    if (!holds(s, fixed[k])) {
      assert_int_equal(shard_listing_find(l, fixed[k]), -ENOENT);
    }
  }
  for (size_t i = 0; i < s->count; i += 1 + s->count / 50) {
    size_t n = strlen(s->v[i]);
    for (int how = 0; how < 3; how++) { /* one byte more, one less, one other */
      memcpy(buf, s->v[i], n + 1);
      memcpy(buf + n - (how == 1), how == 0 ? "!" : "", how == 0 ? 2 : 1);
      buf[n / 2] = (char)(buf[n / 2] ^ (how == 2));
      if (buf[n / 2] && !holds(s, buf)) {
        assert_int_equal(shard_listing_find(l, buf), -ENOENT);
      }
    }
  }
  /* longer than any name can be */
  char *huge = malloc(2 * SHARD_NAME_MAX + 1);
  memset(huge, 'b', 2 * SHARD_NAME_MAX);
  huge[2 * SHARD_NAME_MAX] = 0;
  assert_int_equal(shard_listing_find(l, huge), -ENOENT);
  free(huge);
}

static void check_cursor(const struct names *s, const struct shard_listing *l) {
  static struct shard_cursor c;
  const char *name;
  size_t step = s->count > 300 ? 37 : 1;
  for (size_t from = 0; from <= s->count; from += step) {
    assert_int_equal(shard_listing_seek(&c, l, from), 0);
    size_t i = from;
    for (; i < s->count && i < from + 140; i++) {
      assert_int_equal(shard_listing_next(&c, &name), strlen(s->v[i]));
      assert_string_equal(name, s->v[i]);
    }
    if (i == s->count) { /* the end repeats */
      assert_int_equal(shard_listing_next(&c, &name), 0);
      assert_int_equal(shard_listing_next(&c, &name), 0);
    }
  }
  assert_int_equal(shard_listing_seek(&c, l, s->count + 1), -EINVAL);
  assert_int_equal(shard_listing_seek(&c, l, UINT64_MAX), -EINVAL);
}

/* A table by itself: names, where they are, and what they are; `first` of names_ino(). */
static void check_table(const struct names *s, const struct shard_table *t, size_t first) {
  static char name[3 * SHARD_NAME_MAX];
  static struct shard_attributes a;
  struct shard_position p = {.name = name};
  assert_int_equal(t->count, s->count);
  assert_int_equal(shard_names_seek(&p, t, 0), 0);
  for (size_t i = 0; i < s->count; i++) {
    size_t n = strlen(s->v[i]);
    assert_true(n <= t->longest);
    assert_int_equal(shard_names_next(&p), 1);
    assert_int_equal(p.position, i + 1);
    assert_int_equal(p.length, n);
    assert_string_equal(name, s->v[i]);
    assert_int_equal(shard_names_lower_bound(t, s->v[i], n), i);
    if (i % SHARD_BLOCK_NAMES == 0) {
      memset(&a, 0x5a, sizeof(a));
      assert_int_equal(shard_names_attributes(t, i / SHARD_BLOCK_NAMES, &a), 0);
    }
    assert_true(a.ino[i % SHARD_BLOCK_NAMES] == names_ino(i + first));
    assert_int_equal(a.type[i % SHARD_BLOCK_NAMES], names_type(i + first));
  }
  assert_int_equal(shard_names_next(&p), 0);
  assert_int_equal(shard_names_next(&p), 0);
  /* between the names: what is one byte longer, and comes before the next one */
  for (size_t i = 0; t->order == 0 && i < s->count; i += 1 + s->count / 100) {
    size_t n = strlen(s->v[i]);
    memcpy(name, s->v[i], n);
    strcpy(name + n, "\x01");
    int64_t at = shard_names_lower_bound(t, name, n + 1);
    assert_int_equal(at, i + 1);
  }
  assert_int_equal(shard_names_lower_bound(t, "", 0), 0);
  memset(name, 0xff, 300);
  assert_int_equal(shard_names_lower_bound(t, name, 300), s->count);
  assert_int_equal(shard_names_seek(&p, t, s->count), 0);
  assert_int_equal(shard_names_next(&p), 0);
}

static void check_tables(const struct names *s, int order, const struct shard_listing *l) {
  struct names others = {0};
  names_others(s, order, &others);
  check_table(s, &l->names, 0);
  check_table(&others, &l->others, 1000);
  names_free(&others);
}

static size_t files_in_dir(void) {
  size_t n = 0;
  DIR *d = opendir(dir);
  assert_non_null(d);
  while (readdir(d)) {
    n++;
  }
  closedir(d);
  return n - 2;
}

static void round_trip(struct names *s, int order) {
  names_sort(s, order);
  char digest[65];
  uint64_t bytes;
  /* Without attributes: the same names, and they alone. */
  static struct shard_attributes ignored;
  char bare[65];
  struct shard_listing *l;
  assert_int_equal(names_write_as(s, order, false, file, bare, &bytes), 0);
  assert_int_equal(shard_listing_open(file, &l), 0);
  check_facts(s, order, l);
  assert_int_equal(l->others.count, 0);
  assert_int_equal(shard_names_attributes(&l->names, 0, &ignored), -EBADMSG);
  assert_int_equal(shard_names_attributes(&l->others, 0, &ignored), -EBADMSG);
  assert_int_equal(shard_listing_verify(l), 0);
  shard_listing_close(l);
  assert_int_equal(names_write(s, order, file, digest, &bytes), 0);
  assert_string_equal(digest, bare);
  assert_int_equal(files_in_dir(), 1); /* the temporary file is gone */
  errno = 4242;
  assert_int_equal(shard_listing_open(file, &l), 0);
  assert_int_equal(shard_listing_count(l), s->count);
  struct shard_listing_info info;
  shard_listing_info(l, &info);
  assert_int_equal(info.bytes, bytes);
  assert_string_equal(info.digest, digest);
  check_facts(s, order, l);
  check_dirs(l);
  errno = 4242;
  check_name_and_find(s, l);
  check_absent(s, l);
  check_cursor(s, l);
  check_tables(s, order, l);
  assert_int_equal(shard_listing_verify(l), 0);
  shard_listing_close(l);
  assert_int_equal(errno, 4242);
  unlink(file);
}

static const size_t counts[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 1000};

static void numbered(void **state) {
  (void)state;
  for (size_t k = 0; k < COUNT(counts); k++) {
    for (int order = 0; order < 2; order++) {
      struct names s = {0};
      names_numbered(&s, counts[k]);
      round_trip(&s, order);
      names_free(&s);
    }
  }
}

/* Names whose number goes up by one, and what spoils that. */
static void runs(void **state) {
  (void)state;
  for (int order = 0; order < 2; order++) {
    struct names s = {0};
    names_runs(&s);
    round_trip(&s, order);
    names_free(&s);
  }
}

/* A complete dataset is one run, whatever its size. */
static void one_run(void **state) {
  (void)state;
  char digest[65];
  uint64_t bytes;
  struct names s = {0};
  struct shard_listing *l;
  names_numbered(&s, 100000);
  assert_int_equal(names_write_as(&s, 0, false, file, digest, &bytes), 0);
  assert_true(bytes < 1024);
  assert_int_equal(shard_listing_open(file, &l), 0);
  check_facts(&s, 0, l);
  assert_int_equal(l->names.blocks, 0);
  assert_int_equal(l->names.extent_count, 1);
  char name[64];
  uint64_t seed = 3;
  for (size_t k = 0; k < 2000; k++) {
    size_t i = unit_random(&seed) % s.count;
    assert_int_equal(shard_listing_name(l, i, name, sizeof(name)), strlen(s.v[i]));
    assert_string_equal(name, s.v[i]);
    assert_int_equal(shard_listing_find(l, name), i);
  }
  assert_int_equal(shard_listing_verify(l), 0);
  shard_listing_close(l);
  /* In a manifest's own order: up, the same again, down. */
  names_run(&s, "img_", 5, 0, 200, "");
  for (size_t i = 0; i < 200; i++) {
    names_run(&s, "img_", 5, 199 - i, 1, "");
  }
  assert_int_equal(names_write_as(&s, 2, false, file, digest, &bytes), 0);
  assert_true(bytes < 4096);
  assert_int_equal(shard_listing_open(file, &l), 0);
  check_cursor(&s, l);
  assert_int_equal(shard_listing_find(l, s.v[0]), -ENOTSUP);
  shard_listing_close(l);
  unlink(file);
  names_free(&s);
}

static void odd(void **state) {
  (void)state;
  for (size_t k = 0; k < COUNT(counts); k++) {
    for (int order = 0; order < 2; order++) {
      struct names s = {0};
      names_odd(&s, counts[k], 17 + k);
      round_trip(&s, order);
      names_free(&s);
    }
  }
}

/* Only the last name of three is hidden, by a folder, a file, or not at all. */
static void dotted(void **state) {
  (void)state;
  static const char *const last[] = {"b/.c/d", "b/c/.d", "b/c.d", ".b", "b./c"};
  for (size_t i = 0; i < COUNT(last); i++) {
    struct names s = {0};
    names_run(&s, "a/b.", 1, 0, 2, ".c");
    names_add(&s, last[i], strlen(last[i]));
    round_trip(&s, 0);
    names_free(&s);
  }
}

static void longest(void **state) {
  (void)state;
  for (int order = 0; order < 2; order++) {
    struct names s = {0};
    names_long(&s);
    round_trip(&s, order);
    names_free(&s);
  }
}

/* Names that are valid UTF-8 one by one or only together; a cut inside a character. */
static void utf8(void **state) {
  (void)state;
  static const char *const sets[][4] = {
      {"\xc3\xa9", "\xc3\xaa", "\xe2\x82\xac.jpg", "\xf0\x9f\x98\x80"}, /* all valid */
      {"a\xc3\xa9", "a\xc4\xa9", "b\xc4\xaa"},                          /* share half a character */
      {"\xed\xa0\x80"},                                                 /* a surrogate */
      {"\xc0\xaf"},                                                     /* overlong */
      {"\xf4\x90\x80\x80"},                                             /* past U+10FFFF */
      {"\xc3\xa9", "\xc3", "\xa9x"}, /* recombines bytes seen before */
      {"x\xe2\x82"},                 /* cut short */
      {"\xc3\xa9/\xc3\xa9", "\xc3\xa9\xc3\xa9", "a\xc3\xa9\xa9"},
  };
  for (size_t k = 0; k < COUNT(sets); k++) {
    for (int order = 0; order < 2; order++) {
      struct names s = {0};
      for (size_t i = 0; i < 4 && sets[k][i]; i++) {
        names_add(&s, sets[k][i], strlen(sets[k][i]));
      }
      round_trip(&s, order);
      names_free(&s);
    }
  }
}

static void same_basename(void **state) {
  (void)state;
  static const char *const all[] = {"x", "d/x",  "a/x",  "a/b/x", "z/y",
                                    "y", ".h/y", "a/.y", "b/a.x"};
  for (int order = 0; order < 2; order++) {
    struct names s = {0};
    for (size_t i = 0; i < COUNT(all); i++) {
      names_add(&s, all[i], strlen(all[i]));
    }
    round_trip(&s, order);
    names_free(&s);
  }
}

/* ---- refusals
 * -------------------------------------------------------------------------------------- */

static int put(struct shard_writer *w, const char *name, size_t length) {
  return shard_writer_put(w, SHARD_WRITER_NAMES, name, length, 0, 0);
}

static void refuses_disorder(void **state) {
  (void)state;
  static char big[SHARD_NAME_MAX + 1];
  memset(big, 'n', sizeof(big));
  struct shard_writer *w;
  assert_int_equal(shard_writer_open(file, 0, false, SHARD_SAMPLE_FILE, &w), 0);
  assert_int_equal(put(w, "b", 1), 0);
  assert_int_equal(put(w, "a", 1), -EINVAL);
  assert_int_equal(put(w, "b", 1), -EEXIST);
  assert_int_equal(put(w, "", 0), -ENAMETOOLONG);
  assert_int_equal(put(w, big, SHARD_NAME_MAX), -ENAMETOOLONG);
  assert_int_equal(put(w, "b\x01", 2), 0);
  assert_int_equal(files_in_dir(), 1); /* the temporary file */
  assert_int_equal(access(file, F_OK), -1);
  shard_writer_abort(w);
  assert_int_equal(files_in_dir(), 0);

  assert_int_equal(shard_writer_open(file, 1, false, SHARD_SAMPLE_FILE, &w), 0);
  assert_int_equal(put(w, "z/a", 3), 0);
  assert_int_equal(put(w, "b", 1), 0);
  assert_int_equal(put(w, "c/a", 3), -EINVAL); /* a comes before b */
  assert_int_equal(put(w, "a/b", 3), -EINVAL); /* a/b comes before b */
  assert_int_equal(put(w, "c/b", 3), 0);
  shard_writer_abort(w);
  shard_writer_abort(NULL);
  assert_int_equal(files_in_dir(), 0);
}

/* ---- samples
 * --------------------------------------------------------------------------------------- */

static int by_sample(const void *pa, const void *pb) {
  const char *const *a = pa, *const *b = pb;
  return shard_codec_compare_names(SHARD_ORDER_SAMPLE, *a, strlen(*a), *b, strlen(*b));
}

/* The order is that of the bytes of what the sorter gets, and that can be undone. */
static void check_keys(const struct names *s) {
  char keys[2][SHARD_NAME_MAX];
  size_t lengths[2] = {0};
  for (size_t i = 0; i < s->count; i++) {
    size_t k = i % 2, length = strlen(s->v[i]);
    lengths[k] = shard_sampled_put(keys[k], s->v[i], length);
    if (i > 0) {
      assert_true(shard_codec_compare_bytes(keys[!k], lengths[!k], keys[k], lengths[k]) < 0);
      size_t n = shard_sampled_strip(keys[!k], lengths[!k]);
      assert_int_equal(n, strlen(s->v[i - 1]));
      assert_memory_equal(keys[!k], s->v[i - 1], n);
    }
  }
}

/* Every position and sample against plain counting. */
static void check_samples(const struct names *s, enum shard_sample rule,
                          const struct shard_listing *l) {
  uint64_t sample = 0, begun = 0, largest = 0;
  for (size_t i = 0; i < s->count; i++) {
    const char *last = i ? s->v[i - 1] : "", *name = s->v[i];
    size_t base = shard_codec_basename(name, strlen(name)), n = base;
    const char *dot = name[base] ? strchr(name + base + 1, '.') : NULL;
    bool same =
        i > 0 && shard_codec_basename(last, strlen(last)) == base && strncmp(last, name, base) == 0;
    if (rule == SHARD_SAMPLE_STEM) {
      n = dot ? (size_t)(dot - name) : 0;
      same = same && dot && strncmp(last, name, n + 1) == 0;
    }
    if (!same && i > 0) {
      sample++;
      begun = i;
    }
    largest = i + 1 - begun > largest ? i + 1 - begun : largest;
    assert_int_equal(shard_listing_sample(l, i), sample);
    assert_int_equal(shard_listing_sample_begin(l, sample), begun);
  }
  assert_int_equal(shard_listing_samples(l), s->count ? sample + 1 : 0);
  assert_int_equal(shard_listing_sample_begin(l, shard_listing_samples(l)), s->count);
  assert_int_equal(l->header->largest, largest);
  assert_true(l->header->sample_blocks.size <= s->count / 5 + 80);
}

/* What lies below a directory is a run, though '.' and '-' come before the slash. */
static void check_below(const struct names *s, const struct shard_listing *l) {
  for (size_t i = 0; i < s->count; i++) {
    size_t length = shard_codec_basename(s->v[i], strlen(s->v[i]));
    uint64_t begin, end, first = s->count, count = 0;
    for (size_t k = 0; k < s->count; k++) {
      if (strncmp(s->v[k], s->v[i], length) == 0) {
        first = count++ ? first : k;
      }
    }
    assert_int_equal(shard_names_below(&l->names, s->v[i], length, &begin, &end), 0);
    assert_int_equal(begin, first);
    assert_int_equal(end, first + count);
  }
}

static void samples(void **state) {
  (void)state;
  static const char *const parts[] = {"a", "b-", "c.d", ".e", "f.", "~", "a.b.c", "0", "a-1"},
                           *const ends[] = {"", ".jpg", ".txt", "-1.jpg", ".m.x", "."};
  uint64_t seed = 3;
  for (int round = 0; round < 40; round++) {
    struct names s = {0};
    struct shard_listing *l;
    char digest[65];
    uint64_t bytes;
    size_t count = round == 0 ? 0 : round < 4 ? 3000 : unit_random(&seed) % 60;
    enum shard_sample rule = round % 2 ? SHARD_SAMPLE_STEM : SHARD_SAMPLE_DIRECTORY;
    for (size_t i = 0; i < count; i++) {
      char name[200] = "";
      for (uint64_t depth = unit_random(&seed) % 4; depth > 0; depth--) {
        strcat(strcat(name, parts[unit_random(&seed) % COUNT(parts)]), "/");
      }
      sprintf(name + strlen(name), "%s%u%s", parts[unit_random(&seed) % COUNT(parts)],
              (unsigned)(unit_random(&seed) % 8), ends[unit_random(&seed) % COUNT(ends)]);
      names_add(&s, name, strlen(name));
    }
    if (s.count > 0) {
      qsort(s.v, s.count, sizeof(*s.v), by_sample);
    }
    size_t kept = 0; /* each once */
    for (size_t i = 0; i < s.count; i++) {
      if (kept > 0 && strcmp(s.v[kept - 1], s.v[i]) == 0) {
        free(s.v[i]);
      } else {
        s.v[kept++] = s.v[i];
      }
    }
    s.count = kept;
    check_keys(&s);
    names_sample = rule;
    assert_int_equal(names_write_as(&s, SHARD_ORDER_SAMPLE, false, file, digest, &bytes), 0);
    names_sample = SHARD_SAMPLE_FILE;
    assert_int_equal(shard_listing_open(file, &l), 0);
    assert_int_equal(shard_listing_verify(l), 0);
    check_samples(&s, rule, l);
    check_name_and_find(&s, l);
    if (s.count < 100) {
      check_below(&s, l);
    }
    /* A bit that is changed is noticed, wherever it is. */
    uint64_t size = l->header->sample_blocks.size, offset = l->header->sample_blocks.offset;
    shard_listing_close(l);
    for (uint64_t at = 0; at < size; at += 1 + size / 50) {
      if (at % sizeof(struct shard_sample_block) >= offsetof(struct shard_sample_block, reserved)) {
        continue;
      }
      uint8_t byte;
      int fd = open(file, O_RDWR | O_CLOEXEC);
      assert_int_equal(pread(fd, &byte, 1, (off_t)(offset + at)), 1);
      byte ^= 4;
      assert_int_equal(pwrite(fd, &byte, 1, (off_t)(offset + at)), 1);
      assert_int_equal(shard_listing_open(file, &l), 0);
      uint64_t i = at / sizeof(struct shard_sample_block) * SHARD_SAMPLE_FILES;
      assert_int_equal(shard_listing_sample(l, i), -EBADMSG);
      assert_int_equal(shard_listing_verify(l), -EBADMSG);
      shard_listing_close(l);
      byte ^= 4;
      assert_int_equal(pwrite(fd, &byte, 1, (off_t)(offset + at)), 1);
      close(fd);
    }
    names_free(&s);
  }
}

/* In the order of a manifest, with what comes more often: by position, not by name. */
static void order_kept(void **state) {
  (void)state;
  static const char *const few[] = {"b", "a", "b", "b", "c/d", "a"};
  struct names s = {0};
  char digest[65], buf[8];
  uint64_t bytes;
  struct shard_listing *l;
  for (size_t i = 0; i < 1000; i++) {
    names_add(&s, few[i % COUNT(few)], strlen(few[i % COUNT(few)]));
  }
  assert_int_equal(names_write_as(&s, SHARD_ORDER_KEEP, false, file, digest, &bytes), 0);
  assert_int_equal(shard_listing_open(file, &l), 0);
  check_cursor(&s, l);
  for (size_t i = 0; i < s.count; i++) {
    assert_int_equal(shard_listing_name(l, i, buf, sizeof(buf)), strlen(s.v[i]));
    assert_string_equal(buf, s.v[i]);
  }
  for (size_t k = 0; k < 3; k++) {
    assert_int_equal(shard_listing_find(l, ((const char *[]){"a", "not there", ""})[k]), -ENOTSUP);
  }
  shard_listing_close(l);
  names_free(&s);
  unlink(file);
}

static void open_errors(void **state) {
  (void)state;
  struct shard_listing *l;
  errno = 4242;
  assert_int_equal(shard_listing_open(file, &l), -ENOENT);
  assert_int_equal(shard_listing_open(dir, &l), -EISDIR);
  assert_int_equal(shard_listing_open("/dev/null", &l), -EBADMSG);
  assert_int_equal(shard_listing_open("/etc/passwd", &l), -EBADMSG);
  assert_int_equal(shard_listing_open("/dev/zero", &l), -EBADMSG);
  assert_int_equal(shard_listing_open("/dev/null/x", &l), -ENOTDIR);
  assert_int_equal(shard_listing_open("", &l), -ENOENT);
  assert_int_equal(mkfifo(file, 0600), 0); /* does not wait for a writer */
  assert_int_equal(shard_listing_open(file, &l), -EBADMSG);
  unlink(file);
  assert_int_equal(symlink("a.listing", file), 0); /* to itself */
  assert_int_equal(shard_listing_open(file, &l), -ELOOP);
  unlink(file);
  shard_listing_close(NULL);
  struct shard_writer *w;
  assert_int_equal(shard_writer_open("/no/such/dir/x", 0, false, SHARD_SAMPLE_FILE, &w), -ENOENT);
}

/* A file system that takes no more: the error is passed on, the older file stays. */
static void full(void **state) {
  (void)state;
  struct names s = {0}, old = {0};
  char digest[65];
  uint64_t bytes;
  names_numbered(&old, 10);
  names_odd(&s, 1000, 5);
  names_sort(&s, 0);
  assert_int_equal(names_write(&s, 0, file, digest, &bytes), 0);
  rlim_t size = bytes;
  assert_int_equal(names_write(&old, 0, file, digest, &bytes), 0);
  for (rlim_t limit = 0; limit < size; limit += size / 10 - 1) {
    pid_t pid = fork();
    if (pid == 0) {
      signal(SIGXFSZ, SIG_IGN);
      struct rlimit r = {limit, limit};
      setrlimit(RLIMIT_FSIZE, &r);
      _exit(names_write(&s, 0, file, digest, &bytes) == -EFBIG ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(files_in_dir(), 1);
    struct shard_listing *l;
    assert_int_equal(shard_listing_open(file, &l), 0);
    assert_int_equal(shard_listing_count(l), 10);
    shard_listing_close(l);
  }
  unlink(file);
  names_free(&s);
  names_free(&old);
}

/* A listing opened before it is replaced goes on giving the old names. */
static void replaced_while_open(void **state) {
  (void)state;
  struct names a = {0}, b = {0};
  char digest[65];
  uint64_t bytes;
  names_numbered(&a, 100);
  names_odd(&b, 100, 6);
  names_sort(&b, 0);
  assert_int_equal(names_write(&a, 0, file, digest, &bytes), 0);
  struct shard_listing *l;
  assert_int_equal(shard_listing_open(file, &l), 0);
  assert_int_equal(names_write(&b, 0, file, digest, &bytes), 0);
  check_name_and_find(&a, l);
  shard_listing_close(l);
  unlink(file);
  names_free(&a);
  names_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbered),
      cmocka_unit_test(runs),
      cmocka_unit_test(one_run),
      cmocka_unit_test(odd),
      cmocka_unit_test(dotted),
      cmocka_unit_test(longest),
      cmocka_unit_test(utf8),
      cmocka_unit_test(same_basename),
      cmocka_unit_test(refuses_disorder),
      cmocka_unit_test(samples),
      cmocka_unit_test(order_kept),
      cmocka_unit_test(open_errors),
      cmocka_unit_test(full),
      cmocka_unit_test(replaced_while_open),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
