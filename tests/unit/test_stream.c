/* SPDX-License-Identifier: MIT */
/*
 * A listing in parts, written while it is read: every name once, each directory once, and an end
 * that is not taken for one if it is none.
 * Links: listing/parts, listing/stream
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "build/stream_writer.h"
#include "cache/stream.h"
#include "config/config.h"
#include "listing/listing.h"
#include "unit.h"

#define NAMES 50000
#define SOURCE "s3://bucket/train/"

static char folder[] = "/tmp/shard-stream-XXXXXX";
static char base[PATH_MAX];
static int errors = -1;

static int begin(void **state) {
  static int number;
  char path[PATH_MAX + 8];
  (void)state;
  snprintf(base, sizeof(base), "%s/%d", folder, number++);
  snprintf(path, sizeof(path), "%s.err", base);
  errors = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  return errors >= 0 && flock(errors, LOCK_EX) == 0 ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  close(errors);
  errors = -1;
  return 0;
}

static void name_of(unsigned i, char name[64]) {
  unsigned scattered = (unsigned)((i * 2654435761ULL) % 1000003);
  if (i % 3) {
    snprintf(name, 64, "d%u/e%u/x%06u", i % 17, i % 5, scattered);
  } else {
    snprintf(name, 64, "%06u", scattered);
  }
}

/* Names [from, to), with a pause now and then. */
static void write_names(struct shard_stream_writer *p, unsigned from, unsigned to) {
  char name[64];
  for (unsigned i = from; i < to; i++) {
    name_of(i, name);
    assert_int_equal(shard_stream_writer_add(p, name, strlen(name)), 0);
    if (i % 1000 == 999) {
      assert_int_equal(shard_stream_writer_pause(p), 0);
    }
  }
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

struct texts {
  char **list;
  size_t count, room;
};

static void keep(struct texts *t, const char *text, size_t length) {
  if (t->count == t->room) {
    t->room = t->room ? 2 * t->room : 1024;
    t->list = realloc(t->list, t->room * sizeof(*t->list));
    assert_non_null(t->list);
  }
  t->list[t->count++] = strndup(text, length);
}

static void keep_table(struct texts *t, const struct shard_table *table) {
  struct shard_position p = {.name = malloc(table->longest + 2)};
  int rc = shard_names_seek(&p, table, 0);
  while (rc == 0 && (rc = shard_names_next(&p)) == 1) {
    keep(t, p.name, p.length);
    rc = 0;
  }
  assert_int_equal(rc, 0);
  free(p.name);
}

static void forget(struct texts *t) {
  for (size_t i = 0; i < t->count; i++) {
    free(t->list[i]);
  }
  free(t->list);
}

struct reader {
  struct shard_stream *stream;
  struct texts names, others;
  uint64_t parts;
  char err[700];
  int rc;
};

static void *read_all(void *context) {
  struct reader *r = context;
  const struct shard_stream_part *part = NULL;
  uint64_t begin_next = 0;
  while ((r->rc = shard_stream_next(r->stream, true, &part, r->err, sizeof(r->err))) == 1) {
    r->parts++;
    assert_int_equal(part->begin, begin_next);
    begin_next = part->end;
    assert_int_equal(part->end - part->begin,
                     part->listing->names.count + part->listing->others.count);
    keep_table(&r->names, &part->listing->names);
    keep_table(&r->others, &part->listing->others);
  }
  return NULL;
}

/* Two threads read one stream while it is written. */
static void together(void **state) {
  (void)state;
  struct shard_stream_writer *p;
  struct shard_stream *s;
  struct reader readers[2];
  pthread_t threads[2];
  assert_int_equal(shard_stream_writer_open(base, SOURCE, "", &p), 0);
  assert_int_equal(shard_stream_open(base, SOURCE, "", &s), 0);
  const struct shard_stream_part *none = NULL;
  char err[700];
  assert_int_equal(shard_stream_next(s, false, &none, err, sizeof(err)), -EAGAIN);
  for (size_t i = 0; i < 2; i++) {
    readers[i] = (struct reader){.stream = s};
    assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
  }
  write_names(p, 0, 1000);
  assert_int_equal(shard_stream_writer_count(p), 1); /* at once */
  write_names(p, 1000, NAMES);
  assert_true(shard_stream_writer_count(p) < 40);
  assert_int_equal(shard_stream_get_state(base), SHARD_STREAM_RUNNING);
  assert_int_equal(shard_stream_writer_end(p), 0);
  assert_int_equal(shard_stream_get_state(base), SHARD_STREAM_COMPLETE);
  struct texts wanted = {.count = 0};
  for (unsigned i = 0; i < NAMES; i++) {
    char name[64];
    name_of(i, name);
    keep(&wanted, name, strlen(name));
  }
  qsort(wanted.list, wanted.count, sizeof(*wanted.list), by_text);
  for (size_t i = 0; i < 2; i++) {
    struct reader *r = &readers[i];
    pthread_join(threads[i], NULL);
    assert_int_equal(r->rc, 0);
    assert_int_equal(r->parts, shard_stream_writer_count(p));
    assert_int_equal(r->names.count, NAMES);
    qsort(r->names.list, r->names.count, sizeof(*r->names.list), by_text);
    for (size_t k = 0; k < NAMES; k++) {
      assert_string_equal(r->names.list[k], wanted.list[k]);
    }
    /* 17 directories, and 5 in each */
    assert_int_equal(r->others.count, 17 + 17 * 5);
    qsort(r->others.list, r->others.count, sizeof(*r->others.list), by_text);
    for (size_t k = 1; k < r->others.count; k++) {
      assert_string_not_equal(r->others.list[k - 1], r->others.list[k]);
    }
    forget(&r->names);
    forget(&r->others);
  }
  forget(&wanted);
  shard_stream_writer_free(p);
  shard_stream_close(s);
}

/* Many directories, and names that no directory has. */
static void directories(void **state) {
  (void)state;
  struct shard_stream_writer *p;
  struct reader r = {.rc = 0};
  char name[64];
  assert_int_equal(shard_stream_writer_open(base, SOURCE, "", &p), 0);
  for (unsigned round = 0; round < 2; round++) {
    for (unsigned i = 0; i < 20000; i++) {
      snprintf(name, sizeof(name), "%u/%u", i, round);
      assert_int_equal(shard_stream_writer_add(p, name, strlen(name)), 0);
    }
    assert_int_equal(shard_stream_writer_pause(p), 0);
  }
  static const char *const odd[] = {"/x", "a//b", "a/./b", "../b", "o/../b", "a/b/"};
  for (size_t i = 0; i < COUNT(odd); i++) {
    assert_int_equal(shard_stream_writer_add(p, odd[i], strlen(odd[i])), 0);
  }
  assert_int_equal(shard_stream_writer_add(p, "", 0), -ENAMETOOLONG);
  assert_int_equal(shard_stream_writer_end(p), 0);
  assert_int_equal(shard_stream_open(base, SOURCE, "", &r.stream), 0);
  read_all(&r);
  assert_int_equal(r.rc, 0);
  assert_int_equal(r.names.count, 40000 + COUNT(odd));
  assert_int_equal(r.others.count, 20000 + 3); /* a, o, a/b */
  forget(&r.names);
  forget(&r.others);
  shard_stream_writer_free(p);
  shard_stream_close(r.stream);
}

static void nothing(void **state) {
  (void)state;
  struct shard_stream_writer *p;
  struct reader r = {.rc = 1};
  assert_int_equal(shard_stream_writer_open(base, SOURCE, "", &p), 0);
  assert_int_equal(shard_stream_writer_pause(p), 0);
  assert_int_equal(shard_stream_writer_end(p), 0);
  shard_stream_writer_free(p);
  assert_int_equal(shard_stream_open(base, SOURCE, "", &r.stream), 0);
  read_all(&r);
  assert_int_equal(r.rc, 0);
  assert_int_equal(r.parts, 0);
  shard_stream_close(r.stream);
}

/* What ends before its end, misses a part, or is of something else, is an error. */
static void broken(void **state) {
  (void)state;
  struct shard_stream_writer *p;
  struct reader r = {.rc = 0};
  char path[PATH_MAX + 32];
  assert_int_equal(shard_stream_writer_open(base, SOURCE, "", &p), 0);
  write_names(p, 0, 20000);
  uint64_t parts = shard_stream_writer_count(p);
  assert_true(parts > 3);
  for (unsigned i = 0; i < 100; i++) { /* as with SHARD_LOG=info */
    assert_true(dprintf(errors, "shardctl: s3: trying again\n") > 0);
  }
  assert_int_equal(dprintf(errors, "shardctl: it rains\n"), 19);
  flock(errors, LOCK_UN);
  assert_int_equal(shard_stream_get_state(base), SHARD_STREAM_BROKEN);
  assert_int_equal(shard_stream_open(base, SOURCE, "", &r.stream), 0);
  read_all(&r);
  assert_int_equal(r.rc, -EIO);
  assert_int_equal(r.parts, parts);
  assert_int_equal(strncmp(r.err, "shardctl: it rains; ", 20), 0);
  assert_non_null(strstr(r.err, SOURCE));
  forget(&r.names);
  forget(&r.others);
  shard_stream_close(r.stream);

  assert_int_equal(shard_stream_writer_end(p), 0);
  shard_stream_writer_free(p);
  snprintf(path, sizeof(path), "%s.2.listing", base);
  assert_int_equal(unlink(path), 0);
  r = (struct reader){.rc = 0};
  assert_int_equal(shard_stream_open(base, SOURCE, "", &r.stream), 0);
  read_all(&r);
  assert_int_equal(r.rc, -EIO);
  assert_int_equal(r.parts, 2);
  assert_non_null(strstr(r.err, "2.listing"));
  forget(&r.names);
  forget(&r.others);
  shard_stream_close(r.stream);

  r = (struct reader){.rc = 0};
  assert_int_equal(shard_stream_open(base, "s3://bucket/other/", "", &r.stream), 0);
  read_all(&r);
  assert_int_equal(r.rc, -EINVAL);
  shard_stream_close(r.stream);
}

/* A reader that is cancelled while it waits holds a directory stream: it goes on to the part. */
static void *wait_for_a_part(void *context) {
  const struct shard_stream_part *part = NULL;
  char err[700];
  return shard_stream_next(context, true, &part, err, sizeof(err)) == 1 ? context : NULL;
}

static void cancelled(void **state) {
  struct shard_stream *stream;
  struct shard_stream_writer *p;
  pthread_t reader;
  void *found;
  (void)state;
  assert_int_equal(shard_stream_writer_open(base, SOURCE, "", &p), 0);
  assert_int_equal(shard_stream_open(base, SOURCE, "", &stream), 0);
  assert_int_equal(pthread_create(&reader, NULL, wait_for_a_part, stream), 0);
  assert_int_equal(pthread_cancel(reader), 0);
  write_names(p, 0, 1000);
  assert_int_equal(shard_stream_writer_end(p), 0);
  assert_int_equal(pthread_join(reader, &found), 0);
  assert_ptr_equal(found, stream);
  shard_stream_close(stream);
  shard_stream_writer_free(p);
}

static int remove_all(void **state) {
  char command[100];
  (void)state;
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  return system(command);
}

static int make_folder(void **state) {
  (void)state;
  shard_config_init(environ);
  return mkdtemp(folder) ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(together, begin, end),
                                     cmocka_unit_test_setup_teardown(directories, begin, end),
                                     cmocka_unit_test_setup_teardown(nothing, begin, end),
                                     cmocka_unit_test_setup_teardown(cancelled, begin, end),
                                     cmocka_unit_test_setup_teardown(broken, begin, end)};
  return cmocka_run_group_tests(tests, make_folder, remove_all);
}
