/* SPDX-License-Identifier: MIT */
#include "build/sorter.h"

#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "build/batch.h"
#include "build/spool.h"
#include "libshard.h"

#define WORKERS 2
#define BATCHES 8 /* one for each of four feeders and two workers, and two that wait */
#define BATCH_LEAST ((size_t)64 << 10)
#define BATCH_MOST ((size_t)2 << 20) /* fits into the CPU's cache */
#define AHEAD 8                      /* so many items ahead, names are fetched into the cache */
#define HUGE_PAGE ((size_t)2 << 20)

struct shard_sorter {
  uint32_t order;
  bool attributes;
  const char *const *folders;

  /* The mapping: the region, then segments. The region holds batches and scratch to sort in; later
   * all of it is for merging. */
  char *mapping, *region;
  size_t mapped, region_size, batch_size;
  struct shard_batch batches[BATCHES];
  size_t batches_made;

  pthread_mutex_t mutex; /* of what follows */
  pthread_cond_t changed;
  pthread_t threads[WORKERS];
  size_t started, scratches;
  bool ending, tried, alone;      /* tried: to start workers; alone: a feeder's thread sorts */
  struct shard_batch *waiting;    /* batches to be sorted, the oldest first */
  struct shard_batch *free;       /* empty batches */
  struct shard_segment *segments; /* segments that are empty again */
  char *fresh;                    /* from here to the mapping's end: segments never used */
  size_t available;               /* segments that nobody has reserved */
  struct shard_run *runs;
  size_t run_count, run_room;
  uint64_t count, seq; /* names and batches handed over */
  int rc;
  char error[512];

  /* Some name, from where the order compares first; and how many bytes all names share with it. */
  char *first;
  size_t common;

  int fd;             /* an unnamed file with all runs on disk; -1: none yet */
  const char *folder; /* the file's */
  off_t size;         /* the file's */
};

/* Keep the first error. Under the mutex, or with the threads ended. */
static int fail(struct shard_sorter *s, int rc, const char *text) {
  if (s->rc == 0) {
    s->rc = rc;
    snprintf(s->error, sizeof(s->error), "%s", text);
  }
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
  s->folders = folders;
  s->batch_size = memory / 16 / BATCH_LEAST * BATCH_LEAST;
  s->batch_size = s->batch_size < BATCH_LEAST  ? BATCH_LEAST
                  : s->batch_size > BATCH_MOST ? BATCH_MOST
                                               : s->batch_size;
  s->region_size = BATCHES * s->batch_size + WORKERS * shard_batch_scratch(s->batch_size);
  /* The region is aligned for huge pages, which spare page faults. Small sorters ask for none. */
  s->mapped = memory + HUGE_PAGE;
  s->mapping = mmap(NULL, s->mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (s->mapping == MAP_FAILED) {
    free(s);
    return NULL;
  }
  s->region = s->mapping + (-(uintptr_t)s->mapping & (HUGE_PAGE - 1));
  if (s->batch_size >= HUGE_PAGE) {
    madvise(s->region, memory, MADV_HUGEPAGE);
  }
  s->fresh = s->region + s->region_size;
  s->available = (memory - s->region_size) / SHARD_SEGMENT;
  s->fd = -1;
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->changed, NULL);
  return s;
}

/* Let the threads do what is left, and end them. */
static void stop_threads(struct shard_sorter *s) {
  pthread_mutex_lock(&s->mutex);
  s->ending = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mutex);
  for (size_t i = 0; i < s->started; i++) {
    pthread_join(s->threads[i], NULL);
  }
  s->started = 0;
}

void shard_sorter_free(struct shard_sorter *s) {
  if (s) {
    stop_threads(s);
    munmap(s->mapping, s->mapped);
    free(s->runs);
    free(s->first);
    shard_file_close(s->fd);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->changed);
    free(s);
  }
}

/* ---- runs on disk ---- */

/* Whether a folder is known to be in memory. Not if it does not exist: opening it shall report
 * that.
 */
static bool is_in_memory(const char *folder) {
  struct statfs fs;
  return statfs(folder, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

/* Fail by the file with the runs: `what` cannot be done to it; `remedy` may be "". */
static int fail_file(struct shard_sorter *s, int rc, const char *what, const char *remedy) {
  char text[sizeof(s->error)];
  snprintf(text, sizeof(text), "cannot %s a temporary file in '%.200s': %s%s", what, s->folder,
           strerror(-rc), remedy);
  return fail(s, rc, text);
}

/* Open the file for runs; under the mutex. */
static int open_run_file(struct shard_sorter *s) {
  int rc = 0;
  for (size_t i = 0; s->folders[i]; i++) {
    if (is_in_memory(s->folders[i])) {
      continue;
    }
    s->fd = shard_spool_open_unnamed(s->folders[i]);
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
    return fail_file(s, rc, "make", "; set TMPDIR");
  }
  return fail(s, -ENOSPC,
              "the names do not fit into SHARD_BUILD_MEMORY, and there is no folder on disk for "
              "temporary files; set TMPDIR");
}

static int fail_writing(struct shard_sorter *s, int rc) {
  return fail_file(s, rc, "write", "; set TMPDIR to a folder with room");
}

static void free_segments(struct shard_sorter *s, struct shard_segment *list) {
  while (list) {
    struct shard_segment *next = list->next;
    list->next = s->segments;
    s->segments = list;
    s->available++;
    list = next;
  }
}

/* Write the run in memory with the least seq to disk; under the mutex, released meanwhile. false if
 * there is none, or no file. */
static bool spill_run(struct shard_sorter *s) {
  size_t oldest = s->run_count;
  for (size_t i = 0; i < s->run_count; i++) {
    const struct shard_run *run = &s->runs[i];
    if (run->segments && !run->busy && (oldest == s->run_count || run->seq < s->runs[oldest].seq)) {
      oldest = i;
    }
  }
  if (oldest == s->run_count || (s->fd < 0 && open_run_file(s) != 0)) {
    return false;
  }
  s->runs[oldest].busy = true;
  struct shard_run run = s->runs[oldest];
  run.begin = s->size;
  s->size += (off_t)run.bytes;
  run.end = s->size;
  pthread_mutex_unlock(&s->mutex);
  int rc = shard_run_save(&run, s->fd, run.begin);
  pthread_mutex_lock(&s->mutex);
  if (rc != 0) {
    fail_writing(s, rc);
  }
  free_segments(s, run.segments);
  run.segments = NULL;
  run.busy = false;
  s->runs[oldest] = run;
  pthread_cond_broadcast(&s->changed);
  return true;
}

/* Get n segments; NULL if the sorter has failed. */
static struct shard_segment *reserve_segments(struct shard_sorter *s, size_t n) {
  struct shard_segment *list = NULL;
  pthread_mutex_lock(&s->mutex);
  while (s->available < n && s->rc == 0) {
    /* If there is nothing to spill, other workers have all the memory, and will give some back. */
    if (!spill_run(s) && s->rc == 0) {
      pthread_cond_wait(&s->changed, &s->mutex);
    }
  }
  if (s->rc == 0) {
    s->available -= n;
    for (; n > 0; n--) {
      struct shard_segment *one = s->segments;
      if (one) {
        s->segments = one->next;
      } else {
        one = (struct shard_segment *)s->fresh;
        s->fresh += SHARD_SEGMENT;
      }
      one->next = list;
      list = one;
    }
  }
  pthread_mutex_unlock(&s->mutex);
  return list;
}

/* ---- batches ---- */

/* Note what all names share: the first and last of a sorted batch tell it. Under the mutex. */
static int note_common(struct shard_sorter *s, const struct shard_batch *b) {
  const struct shard_batch_item *ends[] = {&b->items[0], &b->items[b->count - 1]};
  for (size_t i = 0; i < 2; i++) {
    const char *name = shard_batch_name(b, ends[i]) + ends[i]->base;
    size_t length = ends[i]->length - ends[i]->base;
    if (!s->first) {
      s->first = strndup(name, length);
      s->common = length;
    }
    if (!s->first) {
      return fail(s, -ENOMEM, "out of memory");
    }
    size_t k = 0, most = length < s->common ? length : s->common;
    while (k < most && name[k] == s->first[k]) {
      k++;
    }
    s->common = k;
  }
  return 0;
}

static int add_run(struct shard_sorter *s, const struct shard_run *run) {
  struct shard_run *runs = shard_array_grow(s->runs, s->run_count, 1, &s->run_room, sizeof(*runs));
  if (!runs) {
    return fail(s, -ENOMEM, "out of memory");
  }
  s->runs = runs;
  s->runs[s->run_count++] = *run;
  return 0;
}

/* Make a run of a sorted batch. */
static void code_batch(struct shard_sorter *s, const struct shard_batch *b) {
  struct shard_run run = {.seq = b->seq};
  size_t n = shard_run_segments(b->used, b->count, b->longest);
  struct shard_run_coder c = {
      .run = &run, .spare = reserve_segments(s, n), .attributes = s->attributes};
  const char *before = NULL;
  size_t before_length = 0;
  uint32_t count = c.spare ? b->count : 0;
  for (uint32_t i = 0; i < count; i++) {
    const struct shard_batch_item *item = &b->items[i];
    const char *name = shard_batch_name(b, item);
    uint64_t ino;
    uint8_t type;
    if (i + AHEAD < count) { /* names lie in the order they came, not in the items' */
      const char *later = shard_batch_name(b, item + AHEAD);
      __builtin_prefetch(later - SHARD_BATCH_ATTRIBUTES);
      __builtin_prefetch(later + 32);
    }
    shard_batch_attributes(b, item, &ino, &type);
    shard_run_put(&c, before, before_length, name, item->length, ino, type);
    before = name;
    before_length = item->length;
  }
  pthread_mutex_lock(&s->mutex);
  if (run.segments && (add_run(s, &run) != 0 || note_common(s, b) != 0)) {
    free_segments(s, run.segments);
  }
  free_segments(s, c.spare);
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mutex);
}

/* Sort the batch that has waited longest, and make a run of it; under the mutex, released
 * meanwhile.
 */
static void sort_next(struct shard_sorter *s, size_t scratch) {
  char *room = s->region + BATCHES * s->batch_size + scratch * shard_batch_scratch(s->batch_size);
  struct shard_batch *b = s->waiting;
  s->waiting = b->next;
  bool failed = s->rc != 0;
  pthread_mutex_unlock(&s->mutex);
  if (!failed) {
    shard_batch_turn(b);
    if (!shard_batch_in_order(b)) {
      shard_batch_sort(b, room);
    }
    code_batch(s, b);
  }
  pthread_mutex_lock(&s->mutex);
  shard_batch_clear(b);
  b->next = s->free;
  s->free = b;
  pthread_cond_broadcast(&s->changed);
}

/* A worker. */
static void *sort_batches(void *context) {
  struct shard_sorter *s = context;
  pthread_mutex_lock(&s->mutex);
  size_t scratch = s->scratches++;
  while (s->waiting || !s->ending) {
    if (s->waiting) {
      sort_next(s, scratch);
    } else {
      pthread_cond_wait(&s->changed, &s->mutex);
    }
  }
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

/* Start the workers, once; under the mutex. If only one starts, it does the work alone. */
static void start_threads(struct shard_sorter *s) {
  for (int i = 0; i < WORKERS && !s->tried; i++) {
    s->started += pthread_create(&s->threads[s->started], NULL, sort_batches, s) == 0;
  }
  s->tried = true;
}

/* Where no worker could be started, the feeders' threads sort, one at a time; under the mutex. */
static void sort_alone(struct shard_sorter *s) {
  while (s->started == 0 && s->waiting) {
    if (s->alone) {
      pthread_cond_wait(&s->changed, &s->mutex);
    } else {
      s->alone = true;
      sort_next(s, 0);
      s->alone = false;
    }
  }
}

/* Wait for an empty batch. NULL if the sorter has failed. */
static struct shard_batch *take_batch(struct shard_sorter *s) {
  struct shard_batch *b = NULL;
  pthread_mutex_lock(&s->mutex);
  while (s->rc == 0 && !b) {
    if (s->free) {
      b = s->free;
      s->free = b->next;
      b->next = NULL;
    } else if (s->batches_made < BATCHES) {
      b = &s->batches[s->batches_made];
      shard_batch_init(b, s->region + s->batches_made * s->batch_size, s->batch_size, s->order,
                       s->attributes);
      s->batches_made++;
    } else {
      pthread_cond_wait(&s->changed, &s->mutex);
    }
  }
  pthread_mutex_unlock(&s->mutex);
  return b;
}

/* Hand a feeder's batch to the workers. */
static int hand_over_batch(struct shard_feeder *f) {
  struct shard_sorter *s = f->sorter;
  struct shard_batch *b = f->batch;
  f->batch = NULL;
  pthread_mutex_lock(&s->mutex);
  start_threads(s);
  s->count += b->count;
  b->seq = s->seq++;
  struct shard_batch **end = &s->waiting;
  while (*end) {
    end = &(*end)->next;
  }
  b->next = NULL;
  *end = b;
  pthread_cond_broadcast(&s->changed);
  sort_alone(s);
  int rc = s->rc;
  pthread_mutex_unlock(&s->mutex);
  return rc;
}

static int get_error(struct shard_sorter *s) {
  pthread_mutex_lock(&s->mutex);
  int rc = s->rc;
  pthread_mutex_unlock(&s->mutex);
  return rc;
}

int shard_sorter_feed_more(struct shard_feeder *f, const char *name, size_t length, uint64_t ino,
                           uint8_t type) {
  while (!f->batch || !shard_batch_add(f->batch, name, length, ino, type)) {
    int rc = f->batch ? hand_over_batch(f) : 0;
    f->batch = rc == 0 ? take_batch(f->sorter) : NULL;
    if (!f->batch) {
      return get_error(f->sorter);
    }
  }
  return 0;
}

int shard_sorter_end_feed(struct shard_feeder *f) {
  return f->batch ? hand_over_batch(f) : get_error(f->sorter);
}

uint64_t shard_sorter_count(const struct shard_sorter *s) { return s->count; }

/* ---- merging ---- */

static int compare_seqs(const void *pa, const void *pb) {
  uint64_t a = ((const struct shard_run *)pa)->seq, b = ((const struct shard_run *)pb)->seq;
  return (a > b) - (a < b);
}

static int explain_merge(struct shard_sorter *s, const struct shard_run_merge *m, int rc) {
  if (rc == 0 || !m->unreadable) {
    return rc;
  }
  return rc == -EBADMSG ? fail(s, -EIO, "a temporary file came back damaged")
                        : fail_file(s, rc, "read back", "");
}

/* A run that a merge of other runs writes to disk, through one segment. */
struct rewritten_run {
  struct shard_sorter *s;
  struct shard_run run;
  struct shard_run_coder coder;
  int rc; /* the error of writing */
  size_t last_length;
  char last[SHARD_NAME_MAX + 8];
};

static int write_segment(struct rewritten_run *w) {
  w->run.segments->next = NULL;
  w->rc = shard_run_save(&w->run, w->s->fd, w->s->size);
  w->s->size += w->run.segments->used;
  w->run.segments->used = 0;
  return w->rc;
}

static int rewrite_name(void *context, const char *name, size_t length, uint64_t ino,
                        uint8_t type) {
  struct rewritten_run *w = context;
  if (w->run.segments->used + length + 2 * SHARD_RECORD_MORE > SHARD_SEGMENT &&
      write_segment(w) != 0) {
    return w->rc;
  }
  shard_run_put(&w->coder, w->last_length ? w->last : NULL, w->last_length, name, length, ino,
                type);
  memcpy(w->last, name, length);
  w->last_length = length;
  return 0;
}

/* Make one run of runs[first to first + count - 1]. */
static int merge_neighbours(struct shard_sorter *s, struct shard_run_merge *m, size_t first,
                            size_t count, struct rewritten_run *w, struct shard_segment *segment) {
  *segment = (struct shard_segment){.next = NULL};
  w->s = s;
  w->run = (struct shard_run){.seq = s->runs[first].seq, .begin = s->size, .segments = segment};
  w->coder = (struct shard_run_coder){.run = &w->run, .tail = segment, .attributes = s->attributes};
  w->last_length = 0;
  w->rc = 0;
  int rc = shard_run_merge(m, s->runs + first, count, rewrite_name, w);
  rc = rc ? rc : write_segment(w);
  if (rc != 0) {
    return w->rc ? fail_writing(s, w->rc) : explain_merge(s, m, rc);
  }
  w->run.end = s->size;
  w->run.segments = NULL;
  for (size_t i = first; i < first + count; i++) {
    free_segments(s, s->runs[i].segments);
  }
  s->runs[first] = w->run;
  return 0;
}

/* Merge neighbouring runs until the region has room to merge the rest at once. */
static int merge_runs(struct shard_sorter *s, struct shard_run_merge *m) {
  struct rewritten_run *w = (struct rewritten_run *)m->region;
  size_t own = (sizeof(*w) + 63) & ~(size_t)63;
  struct shard_segment *segment = (struct shard_segment *)(m->region + own);
  m->region += own + SHARD_SEGMENT;
  m->size -= own + SHARD_SEGMENT;
  int rc = s->fd < 0 ? open_run_file(s) : 0;
  m->fd = s->fd;
  while (rc == 0 && shard_run_fit(m, s->runs, s->run_count) < s->run_count) {
    size_t left = 0, all = s->run_count;
    for (size_t i = 0, n; i < all && rc == 0; i += n) {
      /* Merge no more than needed: once the rest fits as it is, keep it. */
      n = shard_run_fit(m, s->runs + i, all - i);
      if (left > 0 && shard_run_fit(m, s->runs + i, all - i) == all - i) {
        n = 1;
      }
      rc = n > 1 ? merge_neighbours(s, m, i, n, w, segment) : 0;
      s->runs[left++] = s->runs[i];
    }
    s->run_count = left;
  }
  return rc;
}

int shard_sorter_merge(struct shard_sorter *s, shard_run_emit *emit, void *context) {
  stop_threads(s);
  if (s->rc != 0) {
    return s->rc;
  }
  if (s->run_count > 0) {
    qsort(s->runs, s->run_count, sizeof(*s->runs), compare_seqs);
  }
  struct shard_run_merge m = {.order = s->order,
                              .attributes = s->attributes,
                              .common = s->common,
                              .fd = s->fd,
                              .region = s->region,
                              .size = s->region_size};
  if (shard_run_fit(&m, s->runs, s->run_count) < s->run_count) {
    int rc = merge_runs(s, &m);
    if (rc != 0) {
      return rc;
    }
  }
  return explain_merge(s, &m, shard_run_merge(&m, s->runs, s->run_count, emit, context));
}

const char *shard_sorter_error(const struct shard_sorter *s) { return s->error; }
