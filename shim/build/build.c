/* SPDX-License-Identifier: MIT */
/*
 * build.c - names in any order from a source, through the sorter, to the writer.
 *
 * Threads: the source's fill batches; the sorter's sort them; at the end one merges, and hands the
 * names on in chunks to the calling thread, which encodes and writes them. A text's names go from
 * the batches to the writer at once, by a thread of the sorter's, as long as they are in order.
 */
#include "build/build.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/path.h"
#include "build/sort.h"
#include "build/spool.h"
#include "build/writer.h"
#include "libshard.h"
#include "listing/codec.h"
#include "source/directory.h"
#include "source/text.h"

#define ATTEMPTS 5
#define CHUNK_SIZE ((size_t)64 << 10) /* stays in the cache between the two threads */
#define CHUNKS 8
#define WRITER_MOST ((size_t)24 << 20)

struct dir_record {
  uint64_t dev, ino;
  struct timespec mtime;
  char *path;
};

struct builder {
  const struct shard_options *options;
  const struct shard_build_means *means;
  const char *folders[5];
  bool unique;       /* a name that comes twice counts once */
  const char *twice; /* else: what to say of it */
  uint64_t dropped;
  enum shard_attributes_kept kept;
  struct shard_sorter *names, *others; /* others: NULL if there are no attributes */
  pthread_mutex_t mutex;               /* of dirs */
  struct dir_record *dirs;
  size_t dirs_count, dirs_room;
  atomic_uint_fast64_t seen;
  atomic_int_fast64_t said; /* when progress was last told, seconds */
  struct timespec begin;
};

/* What one thread of the source fills. */
struct hand {
  struct builder *b;
  struct shard_feeder names, others;
  uint64_t seen;
};

/* ---- progress
 * ------------------------------------------------------------------------------------- */

static void tell(struct builder *b, uint64_t more) {
  uint64_t seen = atomic_fetch_add(&b->seen, more) + more;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t said = atomic_load(&b->said);
  if (now.tv_sec > said && atomic_compare_exchange_strong(&b->said, &said, now.tv_sec)) {
    double took =
        (double)(now.tv_sec - b->begin.tv_sec) + (double)(now.tv_nsec - b->begin.tv_nsec) / 1e9;
    if (took >= 1) {
      fprintf(stderr, "shardctl: %llu names, %.0f names/s, %.0f s\n", (unsigned long long)seen,
              (double)seen / took, took);
    }
  }
}

static void count_one(struct hand *h) {
  if (++h->seen % 65536 == 0 && h->b->means->progress) {
    tell(h->b, 65536);
  }
}

/* ---- from the source
 * ------------------------------------------------------------------------------ */

static int on_entry(void *context, const char *path, size_t length, uint64_t ino, uint8_t type) {
  struct hand *h = context;
  count_one(h);
  return shard_feeder_add(&h->names, path, length, ino, type);
}

static int on_other(void *context, const char *path, size_t length, uint64_t ino, uint8_t type) {
  struct hand *h = context;
  count_one(h);
  return shard_feeder_add(&h->others, path, length, ino, type);
}

static int on_directory(void *context, uint64_t dev, uint64_t ino, struct timespec mtime,
                        const char *path) {
  struct builder *b = ((struct hand *)context)->b;
  char *copy = strdup(path);
  int rc = copy ? 0 : -ENOMEM;
  pthread_mutex_lock(&b->mutex);
  if (rc == 0 && b->dirs_count == b->dirs_room) {
    size_t room = b->dirs_room ? 2 * b->dirs_room : 64;
    struct dir_record *more = realloc(b->dirs, room * sizeof(*more));
    if (more) {
      b->dirs = more;
      b->dirs_room = room;
    } else {
      rc = -ENOMEM;
    }
  }
  if (rc == 0) {
    b->dirs[b->dirs_count++] = (struct dir_record){dev, ino, mtime, copy};
  } else {
    free(copy);
  }
  pthread_mutex_unlock(&b->mutex);
  return rc;
}

static int by_path(const void *pa, const void *pb) {
  return strcmp(((const struct dir_record *)pa)->path, ((const struct dir_record *)pb)->path);
}

/* ---- to the writer
 * -------------------------------------------------------------------------------- */

/* Names in order on their way from the merging thread. */
struct record {
  uint64_t ino;
  uint32_t length;
  uint8_t type;
};

struct chunk {
  size_t used;
  char data[CHUNK_SIZE + SHARD_NAME_MAX];
};

struct belt {
  struct shard_sorter *sorter;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct chunk *chunks[CHUNKS];
  uint64_t filled, taken; /* chunks */
  bool ended, given_up;
  int rc;
};

static int send(struct belt *belt) {
  pthread_mutex_lock(&belt->mutex);
  belt->filled++;
  pthread_cond_broadcast(&belt->changed);
  while (belt->filled - belt->taken == CHUNKS && !belt->given_up) {
    pthread_cond_wait(&belt->changed, &belt->mutex);
  }
  belt->chunks[belt->filled % CHUNKS]->used = 0;
  int rc = belt->given_up ? -ECANCELED : 0;
  pthread_mutex_unlock(&belt->mutex);
  return rc;
}

static int on_merged(void *context, const char *name, size_t length, uint64_t ino, uint8_t type) {
  struct belt *belt = context;
  struct chunk *c = belt->chunks[belt->filled % CHUNKS];
  struct record r = {.ino = ino, .length = (uint32_t)length, .type = type};
  memcpy(c->data + c->used, &r, sizeof(r));
  shard_copy_name(c->data + c->used + sizeof(r), name, length);
  c->used += sizeof(r) + length;
  return c->used + sizeof(r) >= CHUNK_SIZE ? send(belt) : 0;
}

static void *merge(void *context) {
  struct belt *belt = context;
  int rc = shard_sorter_merge(belt->sorter, on_merged, belt);
  if (rc == 0 && belt->chunks[belt->filled % CHUNKS]->used > 0) {
    rc = send(belt);
  }
  pthread_mutex_lock(&belt->mutex);
  belt->rc = rc;
  belt->ended = true;
  pthread_cond_broadcast(&belt->changed);
  pthread_mutex_unlock(&belt->mutex);
  return NULL;
}

/*
 * For the order of directories names go through the sorter, in the order of paths, with one more
 * slash and their number before the basename: so they stay as they came within a directory. Of the
 * number's bytes none is a NUL or a slash.
 */
#define NUMBER_BYTES 8

static size_t add_number(char *to, const char *name, size_t length, uint64_t number) {
  size_t base = shard_basename(name, length);
  memcpy(to, name, base);
  to[base] = '/';
  for (int k = NUMBER_BYTES; k > 0; k--) {
    to[base + (size_t)k] = (char)(0x80 | (number & 0x7f));
    number >>= 7;
  }
  memcpy(to + base + 1 + NUMBER_BYTES, name + base, length - base);
  return length + 1 + NUMBER_BYTES;
}

/* In place. Returns the length. */
static size_t remove_number(char *name, size_t length) {
  size_t base = shard_basename(name, length);
  memmove(name + base - 1, name + base + NUMBER_BYTES, length - base - NUMBER_BYTES);
  return length - 1 - NUMBER_BYTES;
}

/* One name more. -EAGAIN if it has come before. */
static int write_name(struct builder *b, struct shard_writer *w, enum shard_writer_table table,
                      char *name, const struct record *r, char *err, size_t size) {
  size_t length = r->length;
  if (b->options->order == SHARD_ORDER_DIRECTORY && table == SHARD_WRITER_NAMES) {
    length = remove_number(name, length);
  }
  int rc = shard_writer_put(w, table, name, length, r->ino, r->type);
  if (rc == -EINVAL && table == SHARD_WRITER_OTHERS && b->kept == SHARD_ATTRIBUTES_MADE) {
    return 0; /* another name had the same directory */
  }
  if (rc == -EINVAL && b->unique) {
    b->dropped++;
    return 0;
  }
  if (rc == -EINVAL) {
    snprintf(err, size, "'%.*s' comes twice: %s", (int)(r->length < 300 ? r->length : 300), name,
             b->twice);
    return -EAGAIN;
  }
  return rc;
}

static int write_chunk(struct builder *b, struct shard_writer *w, enum shard_writer_table table,
                       struct chunk *c, char *err, size_t size) {
  struct record r;
  int rc = 0;
  for (size_t at = 0; at < c->used && rc == 0; at += sizeof(r) + r.length) {
    memcpy(&r, c->data + at, sizeof(r));
    rc = write_name(b, w, table, c->data + at + sizeof(r), &r, err, size);
  }
  return rc;
}

static int write_table(struct builder *b, struct shard_writer *w, enum shard_writer_table table,
                       char *err, size_t size) {
  struct belt belt = {.sorter = table == SHARD_WRITER_NAMES ? b->names : b->others};
  pthread_t thread;
  int rc = 0;
  pthread_mutex_init(&belt.mutex, NULL);
  pthread_cond_init(&belt.changed, NULL);
  for (size_t i = 0; i < CHUNKS && rc == 0; i++) {
    belt.chunks[i] = malloc(sizeof(struct chunk));
    rc = belt.chunks[i] ? 0 : -ENOMEM;
    if (rc == 0) {
      belt.chunks[i]->used = 0;
    }
  }
  if (rc == 0) {
    rc = -pthread_create(&thread, NULL, merge, &belt);
  }
  if (rc == 0) {
    for (;;) {
      pthread_mutex_lock(&belt.mutex);
      while (belt.filled == belt.taken && !belt.ended) {
        pthread_cond_wait(&belt.changed, &belt.mutex);
      }
      struct chunk *c = belt.filled == belt.taken ? NULL : belt.chunks[belt.taken % CHUNKS];
      pthread_mutex_unlock(&belt.mutex);
      if (!c) {
        break;
      }
      rc = rc ? rc : write_chunk(b, w, table, c, err, size);
      pthread_mutex_lock(&belt.mutex);
      belt.taken++;
      belt.given_up = rc != 0;
      pthread_cond_broadcast(&belt.changed);
      pthread_mutex_unlock(&belt.mutex);
    }
    pthread_join(thread, NULL);
    if (rc == 0 && belt.rc != 0) {
      rc = belt.rc;
      snprintf(err, size, "%s", shard_sorter_error(belt.sorter));
    }
  }
  for (size_t i = 0; i < CHUNKS; i++) {
    free(belt.chunks[i]);
  }
  pthread_cond_destroy(&belt.changed);
  pthread_mutex_destroy(&belt.mutex);
  return rc;
}

/* w: a writer that has all names already; NULL: none has been opened. */
static int write_listing(struct builder *b, struct shard_writer *w, const char *file,
                         const struct shard_writer_facts *facts, struct shard_build_result *result,
                         char *err, size_t size) {
  int rc = 0;
  bool written = w != NULL;
  err[0] = 0;
  if (!written) {
    rc = shard_writer_open(file, b->options->order, b->kept, &w);
  }
  if (rc == 0) {
    rc = written ? 0 : write_table(b, w, SHARD_WRITER_NAMES, err, size);
    if (rc == 0 && b->others) {
      rc = write_table(b, w, SHARD_WRITER_OTHERS, err, size);
    }
    /* The threads met them in any order. */
    if (b->dirs_count > 0) {
      qsort(b->dirs, b->dirs_count, sizeof(*b->dirs), by_path);
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
    result->entries = shard_sorter_count(b->names) - b->dropped;
    result->directories = b->dirs_count;
    rc = shard_writer_commit(w, facts, result->digest, &result->bytes);
  }
  if (rc != 0 && !err[0]) {
    snprintf(err, size, "cannot write listing '%.300s': %s", file, strerror(-rc));
  }
  return rc;
}

/* ---- building
 * --------------------------------------------------------------------------------------- */

static void clear(struct builder *b) {
  shard_sorter_free(b->names);
  shard_sorter_free(b->others);
  b->names = b->others = NULL;
  for (size_t i = 0; i < b->dirs_count; i++) {
    free(b->dirs[i].path);
  }
  free(b->dirs);
  b->dirs = NULL;
  b->dirs_count = b->dirs_room = 0;
}

/* Whether the file's directory is `real` or below it. */
static bool lies_inside(const char *folder, const char *real) {
  char *canonical = realpath(folder, NULL);
  bool inside = canonical && shard_path_below(canonical, real);
  free(canonical);
  return inside;
}

/* Where names go that do not fit into memory. */
static void choose_folders(struct builder *b, const char *beside) {
  size_t n = 0;
  const char *tmpdir = getenv("TMPDIR");
  if (b->means->tmpdir) {
    b->folders[n++] = b->means->tmpdir;
    return;
  }
  if (tmpdir && *tmpdir) {
    b->folders[n++] = tmpdir;
  }
  b->folders[n++] = beside;
  b->folders[n++] = "/var/tmp";
  b->folders[n] = "/tmp";
}

/* What went wrong in one of them; "" if nothing. */
static const char *sorters_error(const struct builder *b) {
  const char *why = b->names ? shard_sorter_error(b->names) : "";
  return *why || !b->others ? why : shard_sorter_error(b->others);
}

static int open_sorters(struct builder *b, char *err, size_t size) {
  size_t memory = b->means->memory ? b->means->memory : SHARD_BUILD_MEMORY;
  if (memory < SHARD_BUILD_MEMORY_LEAST) {
    memory = SHARD_BUILD_MEMORY_LEAST;
  }
  bool attributes = b->kept != SHARD_ATTRIBUTES_NONE, stored = b->kept == SHARD_ATTRIBUTES_STORED;
  uint32_t order =
      b->options->order == SHARD_ORDER_DIRECTORY ? (uint32_t)SHARD_ORDER_PATH : b->options->order;
  /* The others are few. The rest is for the writer, and for what is on its way to it. */
  size_t others = attributes ? memory / 8 : 0, rest = memory / 4;
  rest = rest > WRITER_MOST ? WRITER_MOST : rest;
  b->names = shard_sorter_new(order, stored, memory - others - rest, b->folders);
  b->others = attributes ? shard_sorter_new(order, stored, others, b->folders) : NULL;
  if (b->names && (b->others || !attributes)) {
    return 0;
  }
  snprintf(err, size, "cannot reserve SHARD_BUILD_MEMORY, %zu MB: %s; set it lower", memory >> 20,
           strerror(ENOMEM));
  return -ENOMEM;
}

/* Walk the directory into the sorters. */
static int read_tree(struct builder *b, const char *real, bool in_parts,
                     struct shard_walk_facts *walked) {
  struct hand hands[SHARD_WALKERS];
  struct shard_sink sinks[SHARD_WALKERS];
  for (size_t i = 0; i < SHARD_WALKERS; i++) {
    hands[i] = (struct hand){.b = b, .names.sorter = b->names, .others.sorter = b->others};
    sinks[i] = (struct shard_sink){
        .context = &hands[i], .entry = on_entry, .other = on_other, .directory = on_directory};
  }
  int rc = shard_posix_walk(real, b->options, sinks, SHARD_WALKERS, in_parts, walked);
  for (size_t i = 0; i < SHARD_WALKERS; i++) {
    int ended = shard_feeder_end(&hands[i].names);
    if (b->others && ended == 0) {
      ended = shard_feeder_end(&hands[i].others);
    }
    rc = rc ? rc : ended;
  }
  return rc;
}

/* ---- a manifest --------------------------------------------------------------------------------
 */

/* Where its names go. */
struct target {
  struct hand hand;            /* to the sorter, */
  struct shard_writer *writer; /* or, kept in order, to the writer at once */
  uint64_t written, line;
  const char *manifest;
  char *err;
  size_t size;
  char last[SHARD_NAME_MAX]; /* the directory of the last name */
  size_t last_length;
  char numbered[SHARD_NAME_MAX];
};

/* The directories on the way to a name, as far as the last name had others. */
static int add_directories(struct target *t, const char *name, size_t length) {
  size_t base = shard_basename(name, length), from = 0, end;
  if (base == t->last_length && memcmp(name, t->last, base) == 0) {
    return 0;
  }
  while ((end = shard_next_directory(name, base, &from)) > 0) {
    if (from > t->last_length || memcmp(name, t->last, from) != 0) {
      int rc = on_other(&t->hand, name, end, 0, 0);
      if (rc != 0) {
        return rc;
      }
    }
  }
  memcpy(t->last, name, base);
  t->last_length = base;
  return 0;
}

static bool is_path(const char *name, size_t length) {
  for (size_t from = 0, i = 0; i <= length; i++) {
    if (i == length || name[i] == '/') {
      if (!shard_is_entry(name + from, i - from)) {
        return false;
      }
      from = i + 1;
    }
  }
  return true;
}

static int on_line(void *context, const char *name, size_t length) {
  struct target *t = context;
  t->line++;
  if (!t->writer) {
    int rc = t->hand.b->others ? add_directories(t, name, length) : 0;
    if (rc == 0 && t->hand.b->options->order == SHARD_ORDER_DIRECTORY) {
      if (!is_path(name, length) || length + 1 + NUMBER_BYTES >= sizeof(t->numbered)) {
        snprintf(t->err, t->size,
                 "%s, line %llu: a directory has no entry '%.*s'; remove empty parts, '.' and '..'",
                 t->manifest, (unsigned long long)t->line, (int)(length < 300 ? length : 300),
                 name);
        return -EINVAL;
      }
      length = add_number(t->numbered, name, length, t->line);
      name = t->numbered;
    }
    return rc ? rc : on_entry(&t->hand, name, length, 0, 0);
  }
  count_one(&t->hand);
  t->written++;
  return shard_writer_put(t->writer, SHARD_WRITER_NAMES, name, length, 0, 0);
}

static int keep_order(struct builder *b, const char *manifest,
                      const struct shard_manifest_options *how,
                      const struct shard_writer_facts *facts, const char *file,
                      struct shard_build_result *result, char *err, size_t size) {
  struct target *t = calloc(1, sizeof(*t));
  int rc =
      t ? shard_writer_open(file, SHARD_ORDER_KEEP, SHARD_ATTRIBUTES_NONE, &t->writer) : -ENOMEM;
  err[0] = 0;
  if (rc == 0) {
    t->hand.b = b;
    rc = shard_manifest_read(manifest, how, on_line, t, err, size);
    if (rc != 0) {
      shard_writer_abort(t->writer);
    } else {
      result->entries = t->written;
      rc = shard_writer_commit(t->writer, facts, result->digest, &result->bytes);
    }
  }
  free(t);
  if (rc != 0 && !err[0]) {
    snprintf(err, size, "cannot write listing '%.300s': %s", file, strerror(-rc));
  }
  return rc;
}

/* Names that come in order go to the writer at once. */
struct direct {
  struct builder *b;
  struct shard_writer *writer;
  int rc;             /* of writing */
  size_t last_length; /* only if a name may come twice */
  char last[SHARD_NAME_MAX];
};

static int on_direct(void *context, const char *name, size_t length, uint64_t ino, uint8_t type) {
  struct direct *d = context;
  int rc = shard_writer_put(d->writer, SHARD_WRITER_NAMES, name, length, ino, type);
  if (rc == -EINVAL) {
    /* Without --unique the merge will tell a name that comes twice. */
    if (length != d->last_length || memcmp(name, d->last, length) != 0) {
      return 1;
    }
    d->b->dropped++;
    return 0;
  }
  if (d->b->unique) {
    memcpy(d->last, name, length);
    d->last_length = length;
  }
  d->rc = rc;
  return rc;
}

/* Once. d: try to write at once; keep: names may be out of order all the same. */
static int attempt_manifest(struct builder *b, struct direct *d, bool keep, const char *manifest,
                            const struct shard_manifest_options *how,
                            const struct shard_writer_facts *facts, const char *file,
                            struct shard_build_result *result, char *err, size_t size) {
  struct target *t = calloc(1, sizeof(*t));
  err[0] = 0;
  int rc = t ? open_sorters(b, err, size) : -ENOMEM;
  struct shard_writer *w = NULL;
  if (rc == 0 && d) {
    rc = shard_writer_open(file, b->options->order, b->kept, &w);
    if (rc != 0) {
      snprintf(err, size, "cannot write listing '%.300s': %s", file, strerror(-rc));
      free(t);
      return rc;
    }
    d->writer = w;
    shard_sorter_direct(b->names, on_direct, d, keep);
  }
  if (rc == 0) {
    t->hand = (struct hand){.b = b, .names.sorter = b->names, .others.sorter = b->others};
    t->manifest = manifest;
    t->err = err;
    t->size = size;
    rc = shard_manifest_read(manifest, how, on_line, t, err, size);
  }
  if (rc == 0) {
    rc = shard_feeder_end(&t->hand.names);
  }
  if (rc == 0 && b->others) {
    rc = shard_feeder_end(&t->hand.others);
  }
  free(t);
  if (d && w) {
    /* Its thread uses the writer. */
    int direct = shard_sorter_direct_end(b->names);
    rc = rc ? rc : direct < 0 ? direct : 0;
    if (rc != 0 || direct != 1) {
      shard_writer_abort(w);
      w = NULL;
      b->dropped = 0;
    }
    if (d->rc != 0) {
      rc = d->rc;
      snprintf(err, size, "cannot write listing '%.300s': %s", file, strerror(-rc));
    }
  }
  if (rc == 0) {
    rc = write_listing(b, w, file, facts, result, err, size);
    rc = rc == -EAGAIN ? -EINVAL : rc;
  } else if (!err[0]) {
    const char *why = sorters_error(b);
    snprintf(err, size, "'%.300s': %s", manifest, *why ? why : strerror(-rc));
  }
  return rc;
}

static int sort_manifest(struct builder *b, const char *manifest,
                         const struct shard_manifest_options *how,
                         const struct shard_writer_facts *facts, const char *file,
                         struct shard_build_result *result, char *err, size_t size) {
  bool standard = strcmp(manifest, "-") == 0;
  struct stat st;
  off_t begin = standard ? lseek(0, 0, SEEK_CUR) : 0;
  /* What can be read again need not be kept for the case that it is not in order. */
  bool again =
      (standard ? fstat(0, &st) : stat(manifest, &st)) == 0 && S_ISREG(st.st_mode) && begin >= 0;
  /* The order of directories has names that the writer does not: they are merged. */
  struct direct *d =
      b->options->order == SHARD_ORDER_DIRECTORY ? NULL : calloc(1, sizeof(struct direct));
  if (d) {
    d->b = b;
  }
  b->kept = b->options->attributes ? SHARD_ATTRIBUTES_MADE : SHARD_ATTRIBUTES_NONE;
  int rc = attempt_manifest(b, d, !again, manifest, how, facts, file, result, err, size);
  if (rc == -ERESTART && again && (!standard || lseek(0, begin, SEEK_SET) == begin)) {
    clear(b);
    atomic_store(&b->seen, 0);
    rc = attempt_manifest(b, NULL, true, manifest, how, facts, file, result, err, size);
  }
  clear(b);
  free(d);
  return rc;
}

int shard_build_manifest(const char *manifest, const struct shard_manifest_options *how,
                         const struct shard_options *options, bool unique,
                         const struct shard_build_means *means, const char *file,
                         struct shard_build_result *result, char *err, size_t size) {
  struct builder b = {.options = options,
                      .means = means,
                      .unique = unique,
                      .twice = "remove one, or keep it once by --unique, or keep all by "
                               "--keep-order"};
  char text[SHARD_OPTIONS_TEXT];
  shard_options_format(options, text, sizeof(text));
  const char *named = how->root ? how->root : manifest;
  char *real = strcmp(named, "-") == 0 ? NULL : realpath(named, NULL),
       *folder = shard_folder_of(file);
  struct shard_writer_facts facts = {.source = real ? real : named, .options = text};
  int rc = -ENOMEM;
  clock_gettime(CLOCK_REALTIME, &facts.listed);
  clock_gettime(CLOCK_MONOTONIC, &b.begin);
  atomic_init(&b.said, b.begin.tv_sec);
  pthread_mutex_init(&b.mutex, NULL);
  if (folder) {
    choose_folders(&b, folder);
    rc = options->order == SHARD_ORDER_KEEP
             ? keep_order(&b, manifest, how, &facts, file, result, err, size)
             : sort_manifest(&b, manifest, how, &facts, file, result, err, size);
  } else {
    snprintf(err, size, "out of memory");
  }
  pthread_mutex_destroy(&b.mutex);
  free(folder);
  free(real);
  return rc;
}

/* ---- any other source --------------------------------------------------------------------------
 */

struct shard_intake {
  struct target target;
};

int shard_intake_add(struct shard_intake *intake, const char *name, size_t length) {
  return on_line(&intake->target, name, length);
}

static int sort_source(struct builder *b, const struct shard_build_source *source,
                       const struct shard_writer_facts *facts, const char *file,
                       struct shard_build_result *result, char *err, size_t size) {
  b->kept = b->options->attributes ? SHARD_ATTRIBUTES_MADE : SHARD_ATTRIBUTES_NONE;
  struct shard_intake *intake = calloc(1, sizeof(*intake));
  err[0] = 0;
  int rc = intake ? open_sorters(b, err, size) : -ENOMEM;
  if (rc == 0) {
    struct hand *hand = &intake->target.hand;
    *hand = (struct hand){.b = b, .names.sorter = b->names, .others.sorter = b->others};
    rc = source->read(source->context, intake, err, size);
    int ended = shard_feeder_end(&hand->names);
    if (b->others && ended == 0) {
      ended = shard_feeder_end(&hand->others);
    }
    rc = rc ? rc : ended;
  }
  free(intake);
  if (rc == 0) {
    rc = write_listing(b, NULL, file, facts, result, err, size);
    rc = rc == -EAGAIN ? -EINVAL : rc;
  } else if (!err[0]) {
    const char *why = sorters_error(b);
    snprintf(err, size, "'%.300s': %s", source->name, *why ? why : strerror(-rc));
  }
  clear(b);
  return rc;
}

int shard_build_source(const struct shard_build_source *source, const struct shard_options *options,
                       const struct shard_build_means *means, const char *file,
                       struct shard_build_result *result, char *err, size_t size) {
  struct builder b = {
      .options = options, .means = means, .twice = "the source has told it twice; it is at fault"};
  char text[SHARD_OPTIONS_TEXT], *words = NULL, *folder = shard_folder_of(file);
  shard_options_format(options, text, sizeof(text));
  int rc = -ENOMEM;
  if (folder && asprintf(&words, "%s%s", text, source->more_options) >= 0) {
    struct shard_writer_facts facts = {.source = source->name, .options = words};
    clock_gettime(CLOCK_REALTIME, &facts.listed);
    clock_gettime(CLOCK_MONOTONIC, &b.begin);
    atomic_init(&b.said, b.begin.tv_sec);
    pthread_mutex_init(&b.mutex, NULL);
    choose_folders(&b, folder);
    rc = sort_source(&b, source, &facts, file, result, err, size);
    pthread_mutex_destroy(&b.mutex);
    free(words);
  } else {
    snprintf(err, size, "out of memory");
  }
  free(folder);
  return rc;
}

/* ---- a directory
 * --------------------------------------------------------------------------------- */

/*
 * Whether every directory is still as it was when it was read. So the listing is that of a moment:
 * a file that was moved while the tree was walked is not in both places, or in none.
 */
static int compare_tree(const struct builder *b, const char *real, char *err, size_t size) {
  int root = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
  for (size_t i = 0; rc == 0 && i < b->dirs_count; i++) {
    const struct dir_record *d = &b->dirs[i];
    struct stat st;
    if (root < 0 || shard_path_stat(root, d->path, &st) != 0 || st.st_ino != d->ino ||
        st.st_mtim.tv_sec != d->mtime.tv_sec || st.st_mtim.tv_nsec != d->mtime.tv_nsec) {
      rc = -EAGAIN;
      snprintf(err, size, "'%.200s': directory '%.300s' changed while the tree was listed", real,
               *d->path ? d->path : ".");
    }
  }
  if (root >= 0) {
    close(root);
  }
  return rc;
}

/* Once. -EAGAIN: the directory changed meanwhile. */
static int attempt(struct builder *b, const char *real, bool in_parts,
                   struct shard_writer_facts *facts, const char *file,
                   struct shard_build_result *result, char *err, size_t size) {
  struct shard_walk_facts walked;
  b->kept = b->options->attributes ? SHARD_ATTRIBUTES_STORED : SHARD_ATTRIBUTES_NONE;
  clock_gettime(CLOCK_REALTIME, &facts->listed);
  int rc = open_sorters(b, err, size);
  if (rc != 0) {
    return rc;
  }
  rc = read_tree(b, real, in_parts, &walked);
  if (rc == 0) {
    rc = compare_tree(b, real, err, size);
    if (rc != 0) {
      return rc;
    }
    facts->dirs_hidden = walked.dirs_hidden;
    facts->dir_links = walked.dir_links;
    return write_listing(b, NULL, file, facts, result, err, size);
  }
  const char *why = sorters_error(b);
  why = *why ? why : walked.error[0] ? walked.error : strerror(-rc);
  snprintf(err, size, "'%.200s': %s", real, why);
  return rc;
}

int shard_build_directory(const char *root, const struct shard_options *options,
                          const struct shard_build_means *means, const char *file,
                          struct shard_build_result *result, char *err, size_t size) {
  struct builder b = {
      .options = options, .means = means, .twice = "the directory changed while it was listed"};
  char text[SHARD_OPTIONS_TEXT];
  shard_options_format(options, text, sizeof(text));
  char *real = realpath(root, NULL), *folder = shard_folder_of(file);
  int rc = real && folder ? 0 : -errno;
  if (!real || !folder) {
    snprintf(err, size, "cannot find directory '%.300s': %s", root, strerror(-rc));
  } else if (lies_inside(folder, real)) {
    rc = -EINVAL;
    snprintf(err, size, "'%.300s' lies inside '%.300s', which it would change; write it elsewhere",
             file, real);
  }
  if (real && rc == 0) {
    choose_folders(&b, folder);
    pthread_mutex_init(&b.mutex, NULL);
    clock_gettime(CLOCK_MONOTONIC, &b.begin);
    atomic_init(&b.said, b.begin.tv_sec);
    struct shard_writer_facts facts = {.source = real, .options = text};
    rc = -EAGAIN;
    for (int k = 0; k < ATTEMPTS && rc == -EAGAIN; k++) {
      rc = attempt(&b, real, k == 0, &facts, file, result, err, size);
      clear(&b);
    }
    pthread_mutex_destroy(&b.mutex);
  }
  free(folder);
  free(real);
  return rc;
}
