/* SPDX-License-Identifier: MIT */
/*
 * build.c - names in any order from a source, sorted in memory, to the writer.
 *
 * An entry costs its name plus 32 bytes while it is sorted. The sort key is eight bytes of the
 * name, taken after the prefix that all names share, so that nearly all comparisons of
 * img_0000001_of_1000000.jpeg and its like touch no name.
 */
#include "listing/build.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libshard.h"
#include "listing/codec.h"
#include "listing/writer.h"
#include "source/posix.h"

#define ARENA_SIZE ((size_t)4 << 20)
#define ATTEMPTS 5

struct arena {
  struct arena *next;
  size_t used, size;
  char data[];
};

struct entry {
  uint64_t key; /* big-endian bytes of the sort name, for comparison as a number */
  const char *name;
  uint64_t ino;
  uint32_t length;
  uint16_t sort_from; /* where the part begins that is compared first */
  uint8_t type;
};
static_assert(SHARD_NAME_MAX <= UINT16_MAX, "sort_from");

/* Names of one table. */
struct entries {
  struct entry *v;
  size_t count, room;
};

struct dir_record {
  uint64_t dev, ino;
  struct timespec mtime;
  const char *path;
};

struct builder {
  const struct shard_options *options;
  struct arena *arena;
  struct entries names, others;
  struct dir_record *dirs;
  size_t dirs_count, dirs_room;
};

static const char *keep(struct builder *b, const char *text, size_t length) {
  struct arena *a = b->arena;
  if (!a || a->size - a->used < length + 1) {
    size_t size = length + 1 > ARENA_SIZE ? length + 1 : ARENA_SIZE;
    a = malloc(sizeof(*a) + size);
    if (!a) {
      return NULL;
    }
    a->size = size;
    a->used = 0;
    a->next = b->arena;
    b->arena = a;
  }
  char *copy = a->data + a->used;
  memcpy(copy, text, length);
  copy[length] = 0;
  a->used += length + 1;
  return copy;
}

static bool grow(void *array, size_t size, size_t count, size_t *room) {
  if (count < *room) {
    return true;
  }
  size_t more = *room ? *room * 2 : 1024;
  void *grown = realloc(*(void **)array, more * size);
  if (!grown) {
    return false;
  }
  *(void **)array = grown;
  *room = more;
  return true;
}

static int add(struct builder *b, struct entries *to, const char *path, size_t length, uint64_t ino,
               uint8_t type) {
  const char *name = keep(b, path, length);
  if (!name || !grow(&to->v, sizeof(*to->v), to->count, &to->room)) {
    return -ENOMEM;
  }
  size_t from = b->options->order == SHARD_ORDER_BASENAME ? shard_basename(path, length) : 0;
  to->v[to->count++] = (struct entry){.name = name,
                                      .ino = ino,
                                      .length = (uint32_t)length,
                                      .sort_from = (uint16_t)from,
                                      .type = type};
  return 0;
}

static int on_entry(void *context, const char *path, size_t length, uint64_t ino, uint8_t type) {
  struct builder *b = context;
  return add(b, &b->names, path, length, ino, type);
}

static int on_other(void *context, const char *path, size_t length, uint64_t ino, uint8_t type) {
  struct builder *b = context;
  return add(b, &b->others, path, length, ino, type);
}

static int on_directory(void *context, uint64_t dev, uint64_t ino, struct timespec mtime,
                        const char *path) {
  struct builder *b = context;
  const char *kept = keep(b, path, strlen(path));
  if (!kept || !grow(&b->dirs, sizeof(*b->dirs), b->dirs_count, &b->dirs_room)) {
    return -ENOMEM;
  }
  b->dirs[b->dirs_count++] = (struct dir_record){dev, ino, mtime, kept};
  return 0;
}

static void clear(struct builder *b) {
  while (b->arena) {
    struct arena *next = b->arena->next;
    free(b->arena);
    b->arena = next;
  }
  free(b->names.v);
  free(b->others.v);
  free(b->dirs);
  *b = (struct builder){.options = b->options};
}

static int compare_entries(const void *pa, const void *pb) {
  const struct entry *a = pa, *b = pb;
  if (a->key != b->key) {
    return a->key < b->key ? -1 : 1;
  }
  int c = shard_compare_bytes(a->name + a->sort_from, a->length - a->sort_from,
                              b->name + b->sort_from, b->length - b->sort_from);
  return c ? c : shard_compare_bytes(a->name, a->length, b->name, b->length);
}

static void sort_entries(struct entries *b) {
  if (b->count < 2) {
    return;
  }
  const struct entry *first = &b->v[0];
  size_t common = first->length - first->sort_from;
  for (size_t i = 1; i < b->count && common > 0; i++) {
    const struct entry *e = &b->v[i];
    size_t n = e->length - e->sort_from, k = 0;
    if (n < common) {
      common = n;
    }
    while (k < common && first->name[first->sort_from + k] == e->name[e->sort_from + k]) {
      k++;
    }
    common = k;
  }
  bool sorted = true;
  for (size_t i = 0; i < b->count; i++) {
    struct entry *e = &b->v[i];
    const uint8_t *p = (const uint8_t *)e->name + e->sort_from + common;
    size_t n = e->length - e->sort_from - common;
    for (size_t k = 0; k < 8; k++) {
      e->key = e->key << 8 | (k < n ? p[k] : 0);
    }
    sorted = sorted && (i == 0 || compare_entries(e - 1, e) < 0);
  }
  if (!sorted) {
    qsort(b->v, b->count, sizeof(*b->v), compare_entries);
  }
}

/* -EAGAIN if a name comes twice. */
static int write_table(struct shard_writer *w, enum shard_writer_table table,
                       const struct entries *entries, char *err, size_t size) {
  for (size_t i = 0; i < entries->count; i++) {
    const struct entry *e = &entries->v[i];
    int rc = shard_writer_put(w, table, e->name, e->length, e->ino, e->type);
    if (rc == -EINVAL) {
      snprintf(err, size, "the directory shows '%.300s' twice: it changed while it was listed",
               e->name);
      return -EAGAIN;
    }
    if (rc != 0) {
      return rc;
    }
  }
  return 0;
}

static int write_listing(struct builder *b, const char *file,
                         const struct shard_writer_facts *facts, struct shard_build_result *result,
                         char *err, size_t size) {
  struct shard_writer *w;
  int rc = shard_writer_open(file, b->options->order, b->options->attributes, &w);
  if (rc == 0) {
    rc = write_table(w, SHARD_WRITER_NAMES, &b->names, err, size);
    if (rc == 0) {
      rc = write_table(w, SHARD_WRITER_OTHERS, &b->others, err, size);
    }
    for (size_t i = 0; rc == 0 && i < b->dirs_count; i++) {
      const struct dir_record *d = &b->dirs[i];
      rc = shard_writer_dir(w, d->dev, d->ino, d->mtime, d->path);
    }
    if (rc != 0) {
      shard_writer_abort(w);
    }
  }
  if (rc == 0) {
    result->entries = b->names.count;
    result->directories = b->dirs_count;
    rc = shard_writer_commit(w, facts, result->digest, &result->bytes);
  }
  if (rc != 0 && rc != -EAGAIN) {
    snprintf(err, size, "cannot write listing '%.300s': %s", file, strerror(-rc));
  }
  return rc;
}

/* Whether the file's directory is `real` or below it. */
static bool lies_inside(const char *file, const char *real) {
  char *copy = strdup(file);
  char *slash = copy ? strrchr(copy, '/') : NULL;
  if (slash) {
    slash[slash == copy] = 0;
  }
  char *folder = copy ? realpath(slash ? copy : ".", NULL) : NULL;
  size_t n = strlen(real);
  bool inside = folder && strncmp(folder, real, n) == 0 &&
                (folder[n] == '/' || folder[n] == 0 || real[n - 1] == '/');
  free(folder);
  free(copy);
  return inside;
}

int shard_build_directory(const char *root, const struct shard_options *options, const char *file,
                          struct shard_build_result *result, char *err, size_t size) {
  struct builder b = {.options = options};
  char text[SHARD_OPTIONS_TEXT];
  shard_options_format(options, text, sizeof(text));
  char *real = realpath(root, NULL);
  if (!real) {
    int rc = -errno;
    snprintf(err, size, "cannot find directory '%.300s': %s", root, strerror(-rc));
    return rc;
  }
  if (lies_inside(file, real)) {
    snprintf(err, size, "'%.300s' lies inside '%.300s', which it would change; write it elsewhere",
             file, real);
    free(real);
    return -EINVAL;
  }
  int rc = 0;
  for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
    struct shard_sink sink = {
        .context = &b, .entry = on_entry, .other = on_other, .directory = on_directory};
    struct shard_writer_facts facts = {.source = real, .options = text};
    clock_gettime(CLOCK_REALTIME, &facts.listed);
    rc = shard_posix_walk(real, options, &sink);
    if (rc == 0) {
      facts.dirs_hidden = sink.dirs_hidden;
      facts.dir_links = sink.dir_links;
      sort_entries(&b.names);
      sort_entries(&b.others);
      rc = write_listing(&b, file, &facts, result, err, size);
    } else if (rc == -ENOMEM) {
      snprintf(err, size, "out of memory after %zu names of '%.300s'", b.names.count, root);
    } else {
      snprintf(err, size, "'%.200s': %s", root, sink.error);
    }
    clear(&b);
    if (rc != -EAGAIN) {
      break;
    }
  }
  free(real);
  return rc;
}
