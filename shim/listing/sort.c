/* SPDX-License-Identifier: MIT */
#include "listing/sort.h"

#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "libshard.h"
#include "listing/batch.h"
#include "listing/codec.h"
#include "listing/spool.h"

#define BATCH_LEAST ((size_t)256 << 10)
#define BATCH_MOST ((size_t)16 << 20)
#define BATCH_ROUND ((size_t)2 << 20) /* a huge page */
#define AHEAD 6
#define RECORD_MOST ((size_t)SHARD_NAME_MAX + 32) /* of a run */
#define RUN_WRITE ((size_t)256 << 10)
#define RUN_READ_LEAST ((size_t)32 << 10)
#define RUN_READ_MOST ((size_t)1 << 20)

/* Part of the runs' file. A name: varint prefix, varint rest, bytes; inode (varint) and type. */
struct run {
  off_t begin, end;
};

struct shard_sorter {
  uint32_t order;
  bool attributes;
  size_t memory, batch_size;
  size_t held_most; /* sorted batches, before they make a run */
  size_t runs_most; /* merged at once; more are merged into one first */
  const char *const *folders;

  pthread_mutex_t mutex;
  pthread_cond_t changed;
  pthread_t thread;
  bool started, ending;
  struct shard_batch *waiting;     /* full, to be sorted; newest first */
  struct shard_batch *held, *free; /* sorted; empty */
  size_t batches, held_count;      /* made in all; in held */
  uint64_t count;
  int rc;
  pthread_mutex_t error_mutex;
  char error[512];

  /* Of what has been sorted: a name, and how much of its beginning all names share. */
  char *first;
  size_t common;

  int fd;             /* of all runs; unnamed */
  const char *folder; /* where it is */
  off_t size;
  struct run *runs;
  size_t run_count, run_room;
  /* The end of the last run, which the next one goes on with if it fits. */
  char last[SHARD_NAME_MAX];
  size_t last_length;
};

static int fail(struct shard_sorter *s, int rc, const char *text) {
  pthread_mutex_lock(&s->error_mutex);
  if (!s->error[0]) {
    snprintf(s->error, sizeof(s->error), "%s", text);
  }
  pthread_mutex_unlock(&s->error_mutex);
  return rc;
}

/* Of the file with the runs: what cannot be done to it, and a remedy. */
static int fail_file(struct shard_sorter *s, int rc, const char *what, const char *remedy) {
  char text[sizeof(s->error)];
  snprintf(text, sizeof(text), "cannot %s a temporary file in '%.200s': %s%s", what, s->folder,
           strerror(-rc), remedy);
  fail(s, rc, text);
  return rc;
}

static int failed(struct shard_sorter *s) {
  pthread_mutex_lock(&s->mutex);
  int rc = s->rc;
  pthread_mutex_unlock(&s->mutex);
  return rc;
}

struct shard_sorter *shard_sorter_new(uint32_t order, bool attributes, size_t memory,
                                      const char *const *folders) {
  struct shard_sorter *s = calloc(1, sizeof(*s));
  if (!s) {
    return NULL;
  }
  s->order = order;
  s->attributes = attributes;
  s->memory = memory;
  /* Sorting a batch takes a third of its size besides; readers and the sorter have one each. */
  s->batch_size = memory / 16;
  s->batch_size = s->batch_size < BATCH_LEAST ? BATCH_LEAST : s->batch_size;
  s->batch_size = s->batch_size > BATCH_MOST ? BATCH_MOST : s->batch_size;
  if (s->batch_size > BATCH_ROUND) {
    s->batch_size -= s->batch_size % BATCH_ROUND;
  }
  s->held_most = memory / s->batch_size > 6 ? memory / s->batch_size - 5 : 1;
  s->runs_most = memory / ((size_t)256 << 10) < 8 ? 8 : memory / ((size_t)256 << 10);
  s->folders = folders;
  s->fd = -1;
  pthread_mutex_init(&s->mutex, NULL);
  pthread_mutex_init(&s->error_mutex, NULL);
  pthread_cond_init(&s->changed, NULL);
  return s;
}

static void free_list(struct shard_batch *list) {
  while (list) {
    struct shard_batch *next = list->next;
    shard_batch_free(list);
    list = next;
  }
}

static void stop(struct shard_sorter *s) {
  if (s->started) {
    pthread_mutex_lock(&s->mutex);
    s->ending = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    s->started = false;
  }
}

void shard_sorter_free(struct shard_sorter *s) {
  if (s) {
    stop(s);
    free_list(s->waiting);
    free_list(s->held);
    free_list(s->free);
    free(s->runs);
    free(s->first);
    if (s->fd >= 0) {
      close(s->fd);
    }
    pthread_mutex_destroy(&s->mutex);
    pthread_mutex_destroy(&s->error_mutex);
    pthread_cond_destroy(&s->changed);
    free(s);
  }
}

/* ---- merging ------------------------------------------------------------------------------------
 */

/* A sorted sequence: a batch, or a run. */
struct input {
  const char *name;
  size_t length;
  uint64_t ino;
  uint8_t type;
  const struct shard_batch *batch;
  uint32_t next;
  /* a run */
  char *own; /* room for a name */
  uint8_t *buffer;
  size_t at, filled, room;
  off_t from, end;
};

/* An input by its current name; the key is eight bytes of it after what all names share. */
struct node {
  uint64_t key;
  struct input *in;
};

struct merge {
  struct shard_sorter *s;
  struct input *inputs;
  struct node *heap; /* heap[0] has the least name */
  size_t count;
};

static void set_key(const struct merge *m, struct node *node) {
  const struct input *in = node->in;
  size_t base = m->s->order == SHARD_ORDER_BASENAME ? shard_basename(in->name, in->length) : 0;
  node->key = shard_batch_key(in->name, in->length, base + m->s->common);
}

static int refill(struct shard_sorter *s, struct input *in, size_t need) {
  while (in->filled - in->at < need && in->from < in->end) {
    memmove(in->buffer, in->buffer + in->at, in->filled - in->at);
    in->filled -= in->at;
    in->at = 0;
    size_t want = in->room - in->filled;
    if ((off_t)want > in->end - in->from) {
      want = (size_t)(in->end - in->from);
    }
    ssize_t n = pread(s->fd, in->buffer + in->filled, want, in->from);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return fail_file(s, n < 0 ? -errno : -EIO, "read back", "");
    }
    in->filled += (size_t)n;
    in->from += n;
  }
  return 0;
}

/* Step to the next name: 1, 0 at the end, negative errno. */
static int input_next(struct shard_sorter *s, struct input *in) {
  if (in->batch) {
    if (in->next == in->batch->count) {
      return 0;
    }
    const struct shard_item *item = &in->batch->items[in->next++];
    if (in->next + AHEAD < in->batch->count) { /* names lie in the order they came */
      const char *later = shard_batch_name(in->batch, item + AHEAD);
      __builtin_prefetch(later - 16);
      __builtin_prefetch(later + 48);
    }
    in->name = shard_batch_name(in->batch, item);
    in->length = item->length;
    shard_batch_attributes(in->batch, item, &in->ino, &in->type);
    return 1;
  }
  size_t record = RECORD_MOST;
  int rc = in->filled - in->at < record ? refill(s, in, record) : 0;
  if (rc != 0 || in->at == in->filled) {
    return rc;
  }
  const uint8_t *p = in->buffer + in->at, *end = in->buffer + in->filled;
  uint32_t prefix, rest;
  if (shard_varint_get(&p, end, &prefix) != 0 || shard_varint_get(&p, end, &rest) != 0 ||
      prefix > in->length || rest > (size_t)(end - p) || prefix + rest >= SHARD_NAME_MAX) {
    return fail(s, -EIO, "a temporary file came back damaged");
  }
  memcpy(in->own + prefix, p, rest);
  p += rest;
  in->length = prefix + rest;
  in->own[in->length] = 0;
  in->name = in->own;
  if (s->attributes) {
    if (shard_varint64_get(&p, end, &in->ino) != 0 || p == end) {
      return fail(s, -EIO, "a temporary file came back damaged");
    }
    in->type = *p++;
  }
  in->at = (size_t)(p - in->buffer);
  return 1;
}

static bool less(const struct merge *m, const struct node *a, const struct node *b) {
  if (a->key != b->key) {
    return a->key < b->key;
  }
  return shard_compare_names(m->s->order, a->in->name, a->in->length, b->in->name, b->in->length) <
         0;
}

static void sink(struct merge *m, size_t i) {
  struct node moved = m->heap[i];
  for (size_t child; (child = 2 * i + 1) < m->count; i = child) {
    if (child + 1 < m->count && less(m, &m->heap[child + 1], &m->heap[child])) {
      child++;
    }
    if (!less(m, &m->heap[child], &moved)) {
      break;
    }
    m->heap[i] = m->heap[child];
  }
  m->heap[i] = moved;
}

/* Merge sorted batches, and runs from `first_run` on. */
static int merge_all(struct shard_sorter *s, const struct shard_batch *batches, size_t first_run,
                     int (*emit)(void *, const char *, size_t, uint64_t, uint8_t), void *context) {
  size_t runs = s->run_count - first_run, room = runs;
  for (const struct shard_batch *b = batches; b; b = b->next) {
    room++;
  }
  struct merge m = {.s = s,
                    .inputs = calloc(room + 1, sizeof(*m.inputs)),
                    .heap = calloc(room + 1, sizeof(*m.heap))};
  int rc = m.inputs && m.heap ? 0 : fail(s, -ENOMEM, "out of memory");
  size_t buffer = runs ? s->memory / 2 / runs : 0;
  buffer = buffer > RUN_READ_MOST ? RUN_READ_MOST : buffer;
  buffer = (buffer < RUN_READ_LEAST ? RUN_READ_LEAST : buffer) + RECORD_MOST;
  for (size_t i = 0; i < room && rc >= 0; i++) {
    struct input *in = &m.inputs[i];
    if (i < runs) {
      in->from = s->runs[first_run + i].begin;
      in->end = s->runs[first_run + i].end;
      in->room = buffer;
      in->own = malloc(SHARD_NAME_MAX);
      in->buffer = malloc(buffer);
      rc = in->own && in->buffer ? 0 : fail(s, -ENOMEM, "out of memory");
    } else {
      in->batch = batches;
      batches = batches->next;
    }
    rc = rc < 0 ? rc : input_next(s, in);
    if (rc > 0) {
      m.heap[m.count].in = in;
      set_key(&m, &m.heap[m.count++]);
    }
  }
  for (size_t i = m.count / 2; i-- > 0;) {
    sink(&m, i);
  }
  while (rc >= 0 && m.count > 0) {
    struct input *in = m.heap[0].in;
    rc = emit(context, in->name, in->length, in->ino, in->type);
    rc = rc < 0 ? rc : input_next(s, in);
    if (rc > 0) {
      set_key(&m, &m.heap[0]);
    } else {
      m.heap[0] = m.heap[--m.count];
    }
    sink(&m, 0);
  }
  for (size_t i = 0; m.inputs && i < room; i++) {
    free(m.inputs[i].own);
    free(m.inputs[i].buffer);
  }
  free(m.inputs);
  free(m.heap);
  return rc < 0 ? rc : 0;
}

/* ---- runs
 * ----------------------------------------------------------------------------------------- */

/* Whether a folder is on disk, as far as can be told. */
static bool on_disk(const char *folder) {
  struct statfs fs;
  return statfs(folder, &fs) == 0 && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC;
}

static int open_runs(struct shard_sorter *s) {
  int rc = 0;
  for (size_t i = 0; s->folders[i]; i++) {
    if (!on_disk(s->folders[i])) {
      continue;
    }
    s->fd = shard_unnamed_file(s->folders[i]);
    if (s->fd >= 0) {
      s->folder = s->folders[i];
      return 0;
    }
    if (rc == 0) {
      rc = -errno;
      s->folder = s->folders[i];
    }
  }
  if (rc != 0) {
    return fail_file(s, rc, "make", "; set SHARD_TMPDIR");
  }
  return fail(s, -ENOSPC,
              "the names do not fit into SHARD_BUILD_MEMORY, and there is no folder on disk for "
              "temporary files; set SHARD_TMPDIR");
}

struct run_writer {
  struct shard_sorter *s;
  uint8_t *buffer;
  size_t filled;
};

static int run_flush(struct run_writer *w) {
  struct shard_sorter *s = w->s;
  for (size_t done = 0; done < w->filled;) {
    ssize_t n = pwrite(s->fd, w->buffer + done, w->filled - done, s->size);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return fail_file(s, -errno, "write", "; set SHARD_TMPDIR to a folder with room");
    }
    done += (size_t)n;
    s->size += n;
  }
  w->filled = 0;
  return 0;
}

static int run_put(void *context, const char *name, size_t length, uint64_t ino, uint8_t type) {
  struct run_writer *w = context;
  struct shard_sorter *s = w->s;
  if (RUN_WRITE - w->filled < length + 32) {
    int rc = run_flush(w);
    if (rc != 0) {
      return rc;
    }
  }
  size_t prefix = 0, least = length < s->last_length ? length : s->last_length;
  while (prefix < least && name[prefix] == s->last[prefix]) {
    prefix++;
  }
  uint8_t *p = w->buffer + w->filled;
  p += shard_varint_put(p, prefix);
  p += shard_varint_put(p, length - prefix);
  memcpy(p, name + prefix, length - prefix);
  p += length - prefix;
  if (s->attributes) {
    p += shard_varint_put(p, ino);
    *p++ = type;
  }
  w->filled = (size_t)(p - w->buffer);
  memcpy(s->last + prefix, name + prefix, length - prefix);
  s->last_length = length;
  return 0;
}

static int begin_run(struct shard_sorter *s) {
  if (s->run_count == s->run_room) {
    size_t room = s->run_room ? 2 * s->run_room : 64;
    struct run *more = realloc(s->runs, room * sizeof(*more));
    if (!more) {
      return fail(s, -ENOMEM, "out of memory");
    }
    s->runs = more;
    s->run_room = room;
  }
  s->runs[s->run_count++] = (struct run){s->size, s->size};
  s->last_length = 0;
  return 0;
}

/* Whether all of `batches` comes after the last run. */
static bool continues(const struct shard_sorter *s, const struct shard_batch *batches) {
  for (const struct shard_batch *b = batches; b; b = b->next) {
    if (b->count > 0 &&
        shard_compare_names(s->order, s->last, s->last_length, shard_batch_name(b, &b->items[0]),
                            b->items[0].length) > 0) {
      return false;
    }
  }
  return s->run_count > 0;
}

/* Write sorted batches to disk, as a run or the rest of one. */
static int spill(struct shard_sorter *s, const struct shard_batch *batches) {
  int rc = s->fd < 0 ? open_runs(s) : 0;
  struct run_writer w = {.s = s, .buffer = malloc(RUN_WRITE)};
  if (!w.buffer) {
    return fail(s, -ENOMEM, "out of memory");
  }
  if (rc == 0 && !continues(s, batches)) {
    rc = begin_run(s);
  }
  if (rc == 0) {
    rc = merge_all(s, batches, s->run_count, run_put, &w);
  }
  if (rc == 0) {
    rc = run_flush(&w);
  }
  if (rc == 0) {
    s->runs[s->run_count - 1].end = s->size;
  }
  free(w.buffer);
  return rc;
}

/* Make one run of the last ones, if there are too many to merge at once. */
static int merge_runs(struct shard_sorter *s) {
  int rc = 0;
  while (rc == 0 && s->run_count > s->runs_most) {
    size_t first = s->run_count - s->runs_most;
    struct run merged = {s->size, s->size};
    struct run_writer w = {.s = s, .buffer = malloc(RUN_WRITE)};
    if (!w.buffer) {
      return fail(s, -ENOMEM, "out of memory");
    }
    s->last_length = 0;
    rc = merge_all(s, NULL, first, run_put, &w);
    if (rc == 0) {
      rc = run_flush(&w);
    }
    merged.end = s->size;
    s->runs[first] = merged;
    s->run_count = first + 1;
    free(w.buffer);
  }
  return rc;
}

/* ---- batches
 * --------------------------------------------------------------------------------------- */

/* What all names share, by the first and last of a sorted batch. */
static void note_common(struct shard_sorter *s, const struct shard_batch *b) {
  if (b->count == 0) {
    return;
  }
  const struct shard_item *ends[] = {&b->items[0], &b->items[b->count - 1]};
  for (size_t i = 0; i < 2; i++) {
    const char *name = shard_batch_name(b, ends[i]) + ends[i]->base;
    if (!s->first && (s->first = strdup(name))) {
      s->common = strlen(name);
    }
    size_t k = 0;
    while (s->first && k < s->common && name[k] == s->first[k]) {
      k++;
    }
    s->common = k;
  }
}

/* The thread: sorts what is waiting, and spills when enough is held. */
static void *run_sorter(void *context) {
  struct shard_sorter *s = context;
  pthread_mutex_lock(&s->mutex);
  for (;;) {
    while (!s->waiting && !s->ending) {
      pthread_cond_wait(&s->changed, &s->mutex);
    }
    struct shard_batch **last = &s->waiting;
    if (!*last) {
      break;
    }
    while ((*last)->next) {
      last = &(*last)->next;
    }
    struct shard_batch *b = *last; /* the oldest: names in order stay so */
    *last = NULL;
    bool spilling = s->held_count >= s->held_most;
    struct shard_batch *held = NULL;
    if (spilling) {
      held = s->held;
      s->held = NULL;
      s->held_count = 0;
    }
    int rc = s->rc;
    pthread_mutex_unlock(&s->mutex);
    if (rc == 0 && spilling) {
      rc = spill(s, held);
    }
    if (rc == 0) {
      rc = shard_batch_sort(b);
      if (rc != 0) {
        fail(s, rc, "out of memory");
      }
      note_common(s, b);
    }
    pthread_mutex_lock(&s->mutex);
    while (held) {
      struct shard_batch *next = held->next;
      shard_batch_clear(held);
      held->next = s->free;
      s->free = held;
      held = next;
    }
    b->next = s->held;
    s->held = b;
    s->held_count++;
    s->rc = s->rc ? s->rc : rc;
    pthread_cond_broadcast(&s->changed);
  }
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

/* An empty batch, when there is one. NULL and s->rc on failure. */
static struct shard_batch *take(struct shard_sorter *s) {
  struct shard_batch *b = NULL;
  pthread_mutex_lock(&s->mutex);
  if (!s->started && s->rc == 0) {
    s->rc = -pthread_create(&s->thread, NULL, run_sorter, s);
    s->started = s->rc == 0;
    if (!s->started) {
      fail(s, s->rc, "cannot start a thread");
    }
  }
  while (s->rc == 0 && !b) {
    if (s->free) {
      b = s->free;
      s->free = b->next;
      b->next = NULL;
    } else if (s->batches < s->held_most + 4) {
      b = shard_batch_new(s->batch_size, s->order, s->attributes);
      s->batches++;
      if (!b) {
        s->rc = fail(s, -ENOMEM, "out of memory");
      }
    } else {
      pthread_cond_wait(&s->changed, &s->mutex);
    }
  }
  pthread_mutex_unlock(&s->mutex);
  return b;
}

static int hand_over(struct shard_feeder *f) {
  struct shard_sorter *s = f->sorter;
  pthread_mutex_lock(&s->mutex);
  s->count += f->batch->count;
  f->batch->next = s->waiting;
  s->waiting = f->batch;
  f->batch = NULL;
  int rc = s->rc;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mutex);
  return rc;
}

int shard_feeder_add(struct shard_feeder *f, const char *name, size_t length, uint64_t ino,
                     uint8_t type) {
  while (!f->batch || !shard_batch_add(f->batch, name, length, ino, type)) {
    int rc = f->batch ? hand_over(f) : 0;
    f->batch = rc == 0 ? take(f->sorter) : NULL;
    if (!f->batch) {
      return failed(f->sorter);
    }
  }
  return 0;
}

int shard_feeder_end(struct shard_feeder *f) { return f->batch ? hand_over(f) : failed(f->sorter); }

uint64_t shard_sorter_count(const struct shard_sorter *s) { return s->count; }

int shard_sorter_merge(struct shard_sorter *s,
                       int (*emit)(void *context, const char *name, size_t length, uint64_t ino,
                                   uint8_t type),
                       void *context) {
  stop(s);
  if (s->rc == 0) {
    free_list(s->free);
    s->free = NULL;
    if (s->run_count > 0) {
      /* All to disk: their memory goes to the runs' buffers. */
      s->rc = spill(s, s->held);
      free_list(s->held);
      s->held = NULL;
    }
  }
  if (s->rc == 0) {
    s->rc = merge_runs(s);
  }
  if (s->rc == 0) {
    s->rc = merge_all(s, s->held, 0, emit, context);
  }
  return s->rc;
}

const char *shard_sorter_error(const struct shard_sorter *s) { return s->error; }
