/* SPDX-License-Identifier: MIT */
/*
 * merge.c - the merging thread hands names to the caller in chunks, by a ring of chunks.
 */
#include "build/merge.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build/sorter.h"
#include "libshard.h"

#define CHUNK_SIZE                                                                                 \
  ((size_t)64 << 10) /* fits into the CPU's cache, on its way between the threads */
#define CHUNKS 8

struct chunk_record {
  uint64_t ino;
  uint32_t length;
  uint8_t type;
};

struct chunk {
  size_t used;
  char data[CHUNK_SIZE + SHARD_NAME_MAX];
};

struct ring {
  struct shard_sorter *sorter;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct chunk *chunks[CHUNKS];
  uint64_t filled, taken; /* how many chunks so far */
  bool ended, given_up;
  int rc; /* the sorter's error */
  /* Without a merging thread the caller gives each chunk to `take` as it is full. */
  shard_merge_take *take;
  void *context;
  int taken_rc;
};

static int take_chunk(struct chunk *c, shard_merge_take *take, void *context) {
  struct chunk_record r;
  int rc = 0;
  for (size_t at = 0; at < c->used && rc == 0; at += sizeof(r) + r.length) {
    memcpy(&r, c->data + at, sizeof(r));
    rc = take(context, c->data + at + sizeof(r), r.length, r.ino, r.type);
  }
  return rc;
}

/* ---- the merging thread: fills chunks ---- */

static int send_chunk(struct ring *r) {
  if (r->take) {
    r->taken_rc = take_chunk(r->chunks[0], r->take, r->context);
    r->chunks[0]->used = 0;
    return r->taken_rc;
  }
  pthread_mutex_lock(&r->mutex);
  r->filled++;
  pthread_cond_broadcast(&r->changed);
  while (r->filled - r->taken == CHUNKS && !r->given_up) {
    pthread_cond_wait(&r->changed, &r->mutex);
  }
  r->chunks[r->filled % CHUNKS]->used = 0;
  int rc = r->given_up ? -ECANCELED : 0;
  pthread_mutex_unlock(&r->mutex);
  return rc;
}

static int add_to_chunk(void *context, const char *name, size_t length, uint64_t ino,
                        uint8_t type) {
  struct ring *r = context;
  struct chunk *c = r->chunks[r->filled % CHUNKS];
  struct chunk_record record = {.ino = ino, .length = (uint32_t)length, .type = type};
  memcpy(c->data + c->used, &record, sizeof(record));
  memcpy(c->data + c->used + sizeof(record), name, length);
  c->used += sizeof(record) + length;
  return c->used + sizeof(record) >= CHUNK_SIZE ? send_chunk(r) : 0;
}

static void *merge_all(void *context) {
  struct ring *r = context;
  int rc = shard_sorter_merge(r->sorter, add_to_chunk, r);
  if (rc == 0 && r->chunks[r->filled % CHUNKS]->used > 0) {
    rc = send_chunk(r);
  }
  pthread_mutex_lock(&r->mutex);
  r->rc = rc;
  r->ended = true;
  pthread_cond_broadcast(&r->changed);
  pthread_mutex_unlock(&r->mutex);
  return NULL;
}

/* ---- the caller: takes chunks, in order ---- */

static int take_all(struct ring *r, shard_merge_take *take, void *context) {
  int rc = 0;
  for (;;) {
    pthread_mutex_lock(&r->mutex);
    while (r->filled == r->taken && !r->ended) {
      pthread_cond_wait(&r->changed, &r->mutex);
    }
    struct chunk *c = r->filled == r->taken ? NULL : r->chunks[r->taken % CHUNKS];
    pthread_mutex_unlock(&r->mutex);
    if (!c) {
      return rc;
    }
    rc = rc ? rc : take_chunk(c, take, context);
    pthread_mutex_lock(&r->mutex);
    r->taken++;
    r->given_up = rc != 0;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
  }
}

int shard_merge(struct shard_sorter *sorter, shard_merge_take *take, void *context, char *err,
                size_t size) {
  struct ring r = {.sorter = sorter};
  pthread_t thread;
  int rc = 0;
  pthread_mutex_init(&r.mutex, NULL);
  pthread_cond_init(&r.changed, NULL);
  for (size_t i = 0; i < CHUNKS && rc == 0; i++) {
    r.chunks[i] = malloc(sizeof(struct chunk));
    rc = r.chunks[i] ? 0 : -ENOMEM;
    if (rc == 0) {
      r.chunks[i]->used = 0;
    }
  }
  if (rc == 0) {
    if (pthread_create(&thread, NULL, merge_all, &r) == 0) {
      rc = take_all(&r, take, context);
      pthread_join(thread, NULL);
    } else { /* slower */
      r.take = take;
      r.context = context;
      merge_all(&r);
      rc = r.taken_rc;
    }
    if (rc == 0 && r.rc != 0) {
      rc = r.rc;
      snprintf(err, size, "%s", shard_sorter_error(sorter));
    }
  }
  for (size_t i = 0; i < CHUNKS; i++) {
    free(r.chunks[i]);
  }
  pthread_cond_destroy(&r.changed);
  pthread_mutex_destroy(&r.mutex);
  return rc;
}
