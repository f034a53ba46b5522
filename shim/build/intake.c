/* SPDX-License-Identifier: MIT */
#include "build/intake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "build/numbered.h"
#include "build/progress.h"
#include "build/writer.h"
#include "listing/codec.h"

/* ---- names of a directory, by several threads ---- */

int shard_intake_add_entry(struct shard_intake_hand *h, const char *path, size_t length,
                           uint64_t ino, uint8_t type) {
  struct shard_intake *in = h->intake;
  shard_progress_count(&h->seen);
  if (in->options->chunk) {
    if (length + SHARD_CHUNKED_MORE >= sizeof(in->numbered)) {
      snprintf(in->error, sizeof(in->error), "a path below '%.300s' is too long", in->label);
      return -ENAMETOOLONG;
    }
    in->chunks += in->chunks == 0 || in->last_chunk != h->chunk;
    in->last_chunk = h->chunk;
    length = shard_chunked_put(in->numbered, path, length, h->chunk);
    path = in->numbered;
  }
  return shard_sorter_feed(&h->names, path, length, ino, type);
}

int shard_intake_add_other(struct shard_intake_hand *h, const char *path, size_t length,
                           uint64_t ino, uint8_t type) {
  shard_progress_count(&h->seen);
  return shard_sorter_feed(&h->others, path, length, ino, type);
}

int shard_intake_add_directory(struct shard_intake_hand *h, const struct shard_dir *id,
                               const char *path) {
  struct shard_intake *in = h->intake;
  char *copy = strdup(path);
  pthread_mutex_lock(&in->mutex);
  struct shard_intake_directory *dirs =
      shard_grow(in->dirs, in->dirs_count, 1, &in->dirs_room, sizeof(*dirs));
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

/* ---- names alone, by one thread ---- */

/* Add the directories on the way to a name, but those that the last name had too. */
static int add_directories(struct shard_intake *in, const char *name, size_t length) {
  size_t base = shard_codec_basename(name, length), from = 0, end;
  if (base == in->last_length && memcmp(name, in->last, base) == 0) {
    return 0;
  }
  while ((end = shard_codec_next_directory(name, base, &from)) > 0) {
    if (from > in->last_length || memcmp(name, in->last, from) != 0) {
      int rc = shard_intake_add_other(&in->hands[0], name, end, 0, 0);
      if (rc != 0) {
        return rc;
      }
    }
  }
  memcpy(in->last, name, base);
  in->last_length = base;
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

/* Give a name to the writer. A name that comes twice, without `unique`, is out of order: the merge
 * reports it. */
static int write_at_once(struct shard_intake *in, const char *name, size_t length) {
  int rc = shard_writer_put(in->writer, SHARD_WRITER_NAMES, name, length, 0, 0);
  if (rc == -EEXIST && in->unique) {
    in->dropped++;
    return 0;
  }
  if (rc == -EEXIST || (rc == -EINVAL && in->names)) {
    in->writer = NULL;
    in->dropped = 0;
    return in->once ? 0 : -ERESTART;
  }
  in->unwritten = rc;
  in->written++;
  return rc;
}

int shard_intake_add(struct shard_intake *in, const char *name, size_t length) {
  in->line++;
  int rc = in->writer ? write_at_once(in, name, length) : 0;
  rc = rc == 0 && in->others ? add_directories(in, name, length) : rc;
  if (rc != 0 || (in->writer && !in->once)) {
    shard_progress_count(&in->hands[0].seen);
    return rc;
  }
  if (in->options->order == SHARD_ORDER_DIRECTORY) {
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
  return shard_intake_add_entry(&in->hands[0], name, length, 0, 0);
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
  in->dirs_hidden = in->dir_links = 0;
  in->written = in->line = in->dropped = 0;
  in->unwritten = 0;
  in->chunks = in->last_chunk = 0;
  in->last_length = 0;
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
    in->hands[i] =
        (struct shard_intake_hand){.intake = in, .names.sorter = names, .others.sorter = others};
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
  return rc;
}

const char *shard_intake_sorting_error(const struct shard_intake *in) {
  const char *why = in->names ? shard_sorter_error(in->names) : "";
  return *why || !in->others ? why : shard_sorter_error(in->others);
}
