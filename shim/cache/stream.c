/* SPDX-License-Identifier: MIT */
/*
 * stream.c - reads a listing in parts. The open parts are a list that only grows, so that threads
 * need no lock, and a forked child finds none held.
 */
#include "cache/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "cache/safe.h"
#include "config/config.h"
#include "listing/listing.h"

#define GRACE_MS 3000 /* more than SHARD_TIMEOUT, for shardctl to say what is wrong */

struct part_link {
  struct shard_stream_part part; /* first: a pointer to it is one to the link */
  struct shard_listing *listing;
  uint64_t number;
  struct part_link *_Atomic next;
};

struct shard_stream {
  struct part_link *_Atomic first;
  _Atomic uint64_t parts; /* how many there are in all; 0: not known yet */
  const char *source, *options;
  char base[];
};

/* Open BASE.suffix for reading; -1 and errno on failure. The path is malloc'd: a host's stack may
 * be small. */
static int open_beside(const char *base, const char *suffix) {
  char *path;
  if (asprintf(&path, "%s.%s", base, suffix) < 0) {
    errno = ENOMEM;
    return -1;
  }
  int fd = shard_safe_read(path);
  free(path);
  errno = fd < 0 ? -fd : errno;
  return fd < 0 ? -1 : fd;
}

/* Read BASE.suffix into text[size]. Returns the length, or a negative errno. */
static ssize_t read_beside(const char *base, const char *suffix, char *text, size_t size) {
  int fd = open_beside(base, suffix);
  ssize_t n = fd < 0 ? -errno : read(fd, text, size - 1);
  n = fd >= 0 && n < 0 ? -errno : n;
  shard_file_close(fd);
  text[n > 0 ? n : 0] = 0;
  return n;
}

/* Read the last line of BASE.err: why shardctl failed. With SHARD_LOG, others stand before it. */
static void read_last_line(const char *base, char *text, size_t size) {
  int fd = open_beside(base, "err");
  off_t length = fd < 0 ? 0 : lseek(fd, 0, SEEK_END), most = (off_t)size - 1;
  ssize_t n = fd < 0 ? 0 : pread(fd, text, size - 1, length > most ? length - most : 0);
  shard_file_close(fd);
  while (n > 0 && text[n - 1] == '\n') {
    n--;
  }
  text[n > 0 ? n : 0] = 0;
  char *before = strrchr(text, '\n');
  if (before) {
    memmove(text, before + 1, strlen(before));
  }
}

/* The state of a stream; *parts is the number of its parts if it is complete. */
static enum shard_stream_state read_state(const char *base, uint64_t *parts) {
  char count[32];
  if (read_beside(base, "end", count, sizeof(count)) > 0) {
    *parts = strtoull(count, NULL, 10);
    return SHARD_STREAM_COMPLETE;
  }
  int fd = open_beside(base, "err");
  if (fd < 0) {
    return shard_error_is_shortage(errno) ? SHARD_STREAM_RUNNING : SHARD_STREAM_BROKEN;
  }
  bool runs = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  if (runs) {
    return SHARD_STREAM_RUNNING;
  }
  /* shardctl may have ended well after the first look at BASE.end. */
  ssize_t n = read_beside(base, "end", count, sizeof(count));
  *parts = strtoull(count, NULL, 10);
  return n > 0                             ? SHARD_STREAM_COMPLETE
         : shard_error_is_shortage((int)n) ? SHARD_STREAM_RUNNING
                                           : SHARD_STREAM_BROKEN;
}

enum shard_stream_state shard_stream_get_state(const char *base) {
  uint64_t parts;
  return read_state(base, &parts);
}

int shard_stream_open(const char *base, const char *source, const char *options,
                      struct shard_stream **out) {
  size_t b = strlen(base) + 1, s = strlen(source) + 1, o = strlen(options) + 1;
  *out = calloc(1, sizeof(**out) + b + s + o);
  if (!*out) {
    return -ENOMEM;
  }
  (*out)->source = memcpy((*out)->base + b, source, s);
  (*out)->options = memcpy((*out)->base + b + s, options, o);
  memcpy((*out)->base, base, b);
  return 0;
}

static void free_link(struct part_link *l) {
  shard_listing_close(l->listing);
  free(l);
}

void shard_stream_close(struct shard_stream *stream) {
  struct part_link *next;
  for (struct part_link *l = stream ? atomic_load(&stream->first) : NULL; l; l = next) {
    next = atomic_load(&l->next);
    free_link(l);
  }
  free(stream);
}

/* Open a part whose positions begin at `begin`. 0; -ENOENT: it is not there; another negative
 * errno.
 */
static int open_part(const struct shard_stream *s, uint64_t number, uint64_t begin,
                     struct part_link **out) {
  char *path = NULL;
  struct part_link *l = calloc(1, sizeof(*l));
  int rc = -ENOMEM;
  if (l && asprintf(&path, "%s.%llu.listing", s->base, (unsigned long long)number) >= 0) {
    rc = shard_safe_listing(path, &l->listing);
    free(path);
  }
  if (rc == 0 && (strcmp(l->listing->source, s->source) != 0 ||
                  strcmp(l->listing->options, s->options) != 0)) {
    shard_listing_close(l->listing);
    rc = -EINVAL;
  }
  if (rc != 0) {
    free(l);
    return rc;
  }
  l->number = number;
  l->part.listing = l->listing;
  l->part.begin = begin;
  l->part.end = begin + l->listing->others.count + l->listing->names.count;
  *out = l;
  return 0;
}

/* Why a part is not there. 0: the stream has no more parts. -EAGAIN: the part may come. Else a
 * negative errno and a line in err[size]. */
static int explain_missing(struct shard_stream *s, uint64_t number, char *err, size_t size) {
  char text[600];
  uint64_t parts = 0;
  enum shard_stream_state state = read_state(s->base, &parts);
  if (state == SHARD_STREAM_RUNNING) {
    return -EAGAIN;
  }
  if (state == SHARD_STREAM_COMPLETE) {
    if (parts <= number) {
      atomic_store(&s->parts, number);
      return 0;
    }
    /* shardctl may have written the part since we looked for it. */
    snprintf(text, sizeof(text), "%llu.listing", (unsigned long long)number);
    int fd = open_beside(s->base, text);
    if (fd >= 0) {
      close(fd);
      return -EAGAIN;
    }
    snprintf(err, size, "'%.200s': a part of its listing is gone from the cache ('%.200s.%s')",
             s->source, s->base, text);
    return -EIO;
  }
  read_last_line(s->base, text, sizeof(text));
  snprintf(err, size, "%.450s%slisting '%.200s' ended before its end", text, *text ? "; " : "",
           s->source);
  return -EIO;
}

/* Open the part after `last` (NULL: the first) and append it to the list. 1, or as
 * shard_stream_next(). */
static int open_next_part(struct shard_stream *s, struct part_link *last, struct part_link **out,
                          char *err, size_t size) {
  struct part_link *_Atomic *slot = last ? &last->next : &s->first;
  uint64_t number = last ? last->number + 1 : 0;
  struct part_link *mine, *theirs = NULL;
  if (number > 0 && number == atomic_load(&s->parts)) {
    return 0;
  }
  int rc = open_part(s, number, last ? last->part.end : 0, &mine);
  if (rc == -ENOENT) {
    return explain_missing(s, number, err, size);
  }
  if (rc != 0) {
    snprintf(err, size, "'%.200s': part %llu of its listing ('%.200s'): %s", s->source,
             (unsigned long long)number, s->base, shard_listing_strerror(rc));
    return rc;
  }
  if (!atomic_compare_exchange_strong(slot, &theirs, mine)) {
    free_link(mine);
    mine = theirs;
  }
  *out = mine;
  return 1;
}

/* open_next_part(); with `wait`, again and again while the part may come. */
static int await_next_part(struct shard_stream *stream, bool wait, struct part_link *last,
                           struct part_link **next, char *err, size_t size) {
  int64_t deadline = 0;
  for (long nap_ms = 1;; nap_ms = nap_ms < 20 ? 2 * nap_ms : nap_ms) {
    int rc = open_next_part(stream, last, next, err, size);
    if (rc != -EAGAIN || !wait) {
      return rc;
    }
    int64_t now = shard_clock_ms();
    deadline = deadline ? deadline : now + (int64_t)shard_config()->timeout * 1000 + GRACE_MS;
    if (now >= deadline) {
      snprintf(err, size,
               "'%.300s': nothing more of its listing came for %u s; raise SHARD_TIMEOUT",
               stream->source, shard_config()->timeout);
      return -ETIMEDOUT;
    }
    nanosleep(&(struct timespec){0, nap_ms * 1000000L}, NULL);
  }
}

int shard_stream_next(struct shard_stream *stream, bool wait, const struct shard_stream_part **part,
                      char *err, size_t size) {
  struct part_link *last = (struct part_link *)*part;
  struct part_link *next = atomic_load(last ? &last->next : &stream->first);
  int rc = 1, cancelable;
  if (!next) {
    /* A thread cancelled here would leave its directory stream locked. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    rc = await_next_part(stream, wait, last, &next, err, size);
    pthread_setcancelstate(cancelable, NULL);
  }
  *part = rc == 1 ? &next->part : *part;
  return rc;
}
