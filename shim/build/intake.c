/* SPDX-License-Identifier: MIT */
#include "build/intake.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/xxh64.h"
#include "build/numbered.h"
#include "build/progress.h"
#include "build/writer.h"
#include "listing/codec.h"
#include "listing/markers.h"

/* ---- tables ---- */

static int compare_tables(const void *pa, const void *pb) {
  return strcmp(((const struct shard_intake_table *)pa)->path,
                ((const struct shard_intake_table *)pb)->path);
}

/* Note the table that an entry tells of, if it does. 1, 0 or -ENOMEM. Only listings for the shard
 * view are divided. */
static int note_table(struct shard_intake *in, const char *path, size_t length) {
  size_t n;
  const char *format = in->options->attributes && !shard_codec_is_manifest_order(in->options->order)
                           ? shard_marker_find(in->options, path, length, &n)
                           : NULL;
  if (!format) {
    return 0;
  }
  char *copy = strndup(path, n);
  pthread_mutex_lock(&in->mutex);
  struct shard_intake_table *tables =
      shard_array_grow(in->tables, in->tables_count, 1, &in->tables_room, sizeof(*tables));
  bool kept = copy && tables;
  in->tables = tables ? tables : in->tables;
  if (kept) {
    in->tables[in->tables_count++] = (struct shard_intake_table){copy, format};
  } else {
    free(copy);
  }
  pthread_mutex_unlock(&in->mutex);
  return kept ? 1 : -ENOMEM;
}

/* Sort the tables, and keep each once. */
static void end_tables(struct shard_intake *in) {
  size_t kept = 0;
  if (in->tables_count > 0) {
    qsort(in->tables, in->tables_count, sizeof(*in->tables), compare_tables);
  }
  for (size_t i = 0; i < in->tables_count; i++) {
    if (kept > 0 && strcmp(in->tables[kept - 1].path, in->tables[i].path) == 0) {
      free(in->tables[i].path);
    } else {
      in->tables[kept++] = in->tables[i];
    }
  }
  in->tables_count = kept;
}

bool shard_intake_in_table(const struct shard_intake *in, const char *name, size_t length) {
  if (in->tables_count == 0) {
    return false;
  }
  if (!*in->tables[0].path) {
    return true;
  }
  char path[SHARD_NAME_MAX];
  memcpy(path, name, length);
  path[length] = 0;
  for (char *slash = path; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = 0;
    struct shard_intake_table key = {.path = path};
    if (bsearch(&key, in->tables, in->tables_count, sizeof(key), compare_tables)) {
      return true;
    }
  }
  return false;
}

/* ---- names of a directory, by several threads ---- */

/* Whether order SAMPLE has a place for it. 0 or -EINVAL. */
static int check_sampled(struct shard_intake *in, const char *path, size_t length) {
  if (!in->options->sample || (length + SHARD_SAMPLED_MORE < sizeof(in->hands[0].key) &&
                               !memchr(path, SHARD_CODEC_STEM, length))) {
    return 0;
  }
  snprintf(in->error, sizeof(in->error),
           "%.200s: '%.*s' is too long for SHARD_SAMPLE, or has a byte of value 1", in->label,
           (int)(length < 300 ? length : 300), path);
  return -EINVAL;
}

static int feed_entry(struct shard_intake_hand *h, const char *path, size_t length, uint64_t ino,
                      uint8_t type) {
  struct shard_intake *in = h->intake;
  shard_progress_count(&h->seen);
  if (in->options->sample) {
    length = shard_sampled_put(h->key, path, length);
    path = h->key;
  }
  return shard_sorter_feed(&h->names, path, length, ino, type);
}

int shard_intake_add_entry(struct shard_intake_hand *h, const char *path, size_t length,
                           uint64_t ino, uint8_t type) {
  int rc = check_sampled(h->intake, path, length);
  rc = rc ? rc : note_table(h->intake, path, length);
  return rc < 0 ? rc : feed_entry(h, path, length, ino, type);
}

int shard_intake_add_other(struct shard_intake_hand *h, const char *path, size_t length,
                           uint64_t ino, uint8_t type) {
  shard_progress_count(&h->seen);
  int rc = note_table(h->intake, path, length);
  return rc < 0 ? rc : shard_sorter_feed(&h->others, path, length, ino, type);
}

int shard_intake_add_directory(struct shard_intake_hand *h, const struct shard_dir *id,
                               const char *path) {
  struct shard_intake *in = h->intake;
  char *copy = strdup(path);
  pthread_mutex_lock(&in->mutex);
  struct shard_intake_directory *dirs =
      shard_array_grow(in->dirs, in->dirs_count, 1, &in->dirs_room, sizeof(*dirs));
  int rc = copy && dirs ? 0 : -ENOMEM;
  in->dirs = dirs ? dirs : in->dirs;
  if (rc == 0) {
    in->dirs[in->dirs_count++] = (struct shard_intake_directory){*id, copy};
  } else {
    free(copy);
  }
  pthread_mutex_unlock(&in->mutex);
  return rc;
}

/* ---- names alone ---- */

/* Add the directories on the way to a name, but those that the hand's last name had too. */
static int add_directories(struct shard_intake_hand *h, const char *name, size_t length) {
  size_t base = shard_codec_basename(name, length), from = 0, end;
  if (base == h->last_length && memcmp(name, h->last, base) == 0) {
    return 0;
  }
  /* Of shuffled names each has another directory than the last. */
  uint64_t hash = shard_xxh64(name, base, 0) | 1;
  uint64_t *added = &h->added[(hash >> 1) % SHARD_INTAKE_DIRECTORIES];
  if (*added == hash) {
    return 0;
  }
  while ((end = shard_codec_next_directory(name, base, &from)) > 0) {
    if (from > h->last_length || memcmp(name, h->last, from) != 0) {
      int rc = shard_intake_add_other(h, name, end, 0, DT_DIR);
      if (rc != 0) {
        return rc;
      }
    }
  }
  memcpy(h->last, name, base);
  h->last_length = base;
  *added = hash;
  return 0;
}

static bool is_path(const char *name, size_t length) {
  for (size_t from = 0, i = 0; i <= length; i++) {
    if (i == length || name[i] == '/') {
      if (!shard_codec_is_entry(name + from, i - from)) {
        return false;
      }
      from = i + 1;
    }
  }
  return true;
}

/* The writer has names that it must not keep: the sorter's names are merged in their place. */
static int leave_writer(struct shard_intake *in) {
  in->writer = NULL;
  in->dropped = 0;
  return in->once ? 0 : -ERESTART;
}

/* Give a name to the writer. A name that comes twice, without `unique`, is out of order: the merge
 * reports it. */
static int write_at_once(struct shard_intake *in, const char *name, size_t length) {
  int rc = shard_writer_put(in->writer, SHARD_WRITER_NAMES, name, length, 0, 0);
  if (rc == -EEXIST && in->unique) {
    in->dropped++;
    return 0;
  }
  if (rc == -EEXIST || rc == -ENOTDIR || (rc == -EINVAL && in->names)) {
    return leave_writer(in);
  }
  in->unwritten = rc;
  in->written++;
  return rc;
}

int shard_intake_add(struct shard_intake_hand *h, const char *name, size_t length) {
  struct shard_intake *in = h->intake;
  int rc = check_sampled(in, name, length);
  rc = rc == 0 && in->writer ? write_at_once(in, name, length) : rc;
  /* Then its directory is the last name's, and no marker of a table has a number. */
  bool counted = rc == 0 && in->writer && shard_writer_counted(in->writer);
  rc = rc == 0 && in->others && !counted ? add_directories(h, name, length) : rc;
  int table = rc == 0 && !counted ? note_table(in, name, length) : 0;
  rc = table < 0 ? table : rc;
  if (rc == 0 && in->writer && in->tables_count > 0) {
    rc = leave_writer(in);
  }
  if (rc != 0 || (in->writer && !in->once)) {
    shard_progress_count(&h->seen);
    return rc;
  }
  if (in->options->order == SHARD_ORDER_DIRECTORY) {
    in->line++;
    if (!is_path(name, length) || length + SHARD_NUMBERED_MORE >= sizeof(in->numbered)) {
      snprintf(
          in->error, sizeof(in->error),
          "%.300s, line %llu: a directory has no entry '%.*s'; remove empty parts, '.' and '..'",
          in->label, (unsigned long long)in->line, (int)(length < 300 ? length : 300), name);
      return -EINVAL;
    }
    length = shard_numbered_put(in->numbered, name, length, in->line);
    name = in->numbered;
  }
  return feed_entry(h, name, length, 0, h->type);
}

/* ---- for the builder ---- */

struct shard_intake *shard_intake_new(const struct shard_options *options, const char *label) {
  struct shard_intake *in = calloc(1, sizeof(*in));
  if (in) {
    in->options = options;
    in->label = label;
    pthread_mutex_init(&in->mutex, NULL);
  }
  return in;
}

void shard_intake_clear(struct shard_intake *in) {
  shard_sorter_free(in->names);
  shard_sorter_free(in->others);
  in->names = in->others = NULL;
  for (size_t i = 0; i < in->dirs_count; i++) {
    free(in->dirs[i].path);
  }
  free(in->dirs);
  in->dirs = NULL;
  in->dirs_count = in->dirs_room = 0;
  for (size_t i = 0; i < in->tables_count; i++) {
    free(in->tables[i].path);
  }
  free(in->tables);
  in->tables = NULL;
  in->tables_count = in->tables_room = 0;
  in->dirs_hidden = in->dir_links = 0;
  in->written = in->line = in->dropped = 0;
  in->unwritten = 0;
  in->error[0] = 0;
}

void shard_intake_free(struct shard_intake *in) {
  if (in) {
    shard_intake_clear(in);
    pthread_mutex_destroy(&in->mutex);
    free(in);
  }
}

void shard_intake_open(struct shard_intake *in, struct shard_sorter *names,
                       struct shard_sorter *others, struct shard_writer *writer) {
  in->names = names;
  in->others = others;
  in->writer = writer;
  for (size_t i = 0; i < SHARD_INTAKE_HANDS; i++) {
    struct shard_intake_hand *h = &in->hands[i];
    h->intake = in;
    h->names = (struct shard_feeder){.sorter = names};
    h->others = (struct shard_feeder){.sorter = others};
    h->seen = h->last_length = 0;
    h->type = DT_REG;
    memset(h->added, 0, sizeof(h->added));
  }
}

int shard_intake_end(struct shard_intake *in) {
  int rc = 0;
  for (size_t i = 0; in->names && i < SHARD_INTAKE_HANDS; i++) {
    int ended = shard_sorter_end_feed(&in->hands[i].names);
    if (in->others && ended == 0) {
      ended = shard_sorter_end_feed(&in->hands[i].others);
    }
    rc = rc ? rc : ended;
  }
  end_tables(in);
  return rc;
}

const char *shard_intake_sorting_error(const struct shard_intake *in) {
  const char *why = in->names ? shard_sorter_error(in->names) : "";
  return *why || !in->others ? why : shard_sorter_error(in->others);
}
