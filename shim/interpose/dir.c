/* SPDX-License-Identifier: MIT */
/*
 * dir.c - wraps opendir and its family. host/exports.def lists all wrapped calls.
 *
 * A served directory has libc's DIR and descriptor, and a stream, which is found by the DIR's
 * address: shard_view_read() fills the stream's buffer, and libc's buffer stays empty. So telldir
 * gives d_off, and seekdir sets the file's offset, as in libc. If a window shuffles the stream,
 * telldir counts entries, and seekdir repeats the shuffle up to that count.
 */
#include "interpose/dir.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/kernel.h"
#include "config/config.h"
#include "host/real.h"
#include "interpose/guard.h"
#include "interpose/handles.h"
#include "view/once.h"
#include "view/window.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "readdir is readdir64");

#define BUFFER_SIZE 65536 /* bytes; libc's buffer has 32 KB, and so needs more calls */

struct stream {
  struct shard_served_dir *served;
  struct shard_window *window; /* NULL: the stream is not shuffled */
  atomic_uint lock;            /* 0, or the generation that holds the lock */
  off_t position;              /* behind the last entry that the program got */
  off_t ahead;                 /* behind the last entry in the buffer */
  bool too_long;               /* readdir_r has skipped an entry */
  bool rewound;                /* the next read must call shard_view_rewind() first */
  size_t at, filled;
  char buffer[BUFFER_SIZE] __attribute__((aligned(16)));
};

/* Counts as used until shard_dir_enable(), so that no call goes to an empty shard_real_table. */
static struct shard_handles streams = {.used = 1};

void shard_dir_enable(void) { atomic_fetch_sub(&streams.used, 1); }

/* Returns whether no DIR is served, so that a call goes to libc: the only cost for a program that
 * lists no dataset. */
static inline bool has_no_stream(void) {
  return atomic_load_explicit(&streams.used, memory_order_acquire) == 0;
}

_Thread_local int shard_dir_refused_errno;

/* Sets errno for a failure of libshard's, not libc's. rc: a negative errno. */
static void fail_with(int rc) { errno = shard_dir_refused_errno = -rc; }

/* ---- one thread at a time on a stream ---- */

/* Counts forks. A lock of an older generation is free: the thread that took it is in another
 * process. */
static atomic_uint generation = 1;

static void count_fork(void) { atomic_fetch_add(&generation, 1); }

static void register_fork(void) {
  static atomic_flag done = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&done)) {
    pthread_atfork(NULL, NULL, count_fork);
  }
}

static void lock_stream(struct stream *s) {
  unsigned mine = atomic_load(&generation);
  for (unsigned tries = 0;; tries++) {
    unsigned holder = atomic_load_explicit(&s->lock, memory_order_relaxed);
    if (holder != mine &&
        atomic_compare_exchange_strong_explicit(&s->lock, &holder, mine, memory_order_acquire,
                                                memory_order_relaxed)) {
      return;
    }
    if (tries < 100) {
      sched_yield();
    } else {
      nanosleep(&(struct timespec){0, 50000}, NULL);
    }
  }
}

static void unlock_stream(struct stream *s) {
  atomic_store_explicit(&s->lock, 0, memory_order_release);
}

/* ---- opening and closing ---- */

static void free_stream(struct stream *s) {
  if (s) {
    shard_view_close(s->served);
    shard_window_free(s->window);
    free(s);
  }
}

/* Frees the stream of a DIR that is being closed; or of a DIR that was closed past libshard, if
 * libc uses the address again. */
static void drop_stream(const DIR *dir) {
  if (!has_no_stream()) {
    free_stream(shard_handles_remove(&streams, dir));
  }
}

/* Creates a stream for a descriptor; *out is NULL if the directory is not served. */
static int new_stream(int fd, struct stream **out) {
  struct shard_served_dir *served;
  *out = NULL;
  int rc = shard_guard_open(fd, &served);
  if (rc != 0 || !served) {
    return rc;
  }
  register_fork();
  struct stream *s = malloc(sizeof(*s));
  uint64_t key = shard_view_window_key(served);
  if (s) {
    memset(s, 0, offsetof(struct stream, buffer));
    s->served = served;
    s->window = key ? shard_window_new(key, shard_config()->window) : NULL;
    off_t now = lseek(fd, 0, SEEK_CUR);
    s->position = s->ahead = s->window || now < 0 ? 0 : now;
  }
  if (!s || (key && !s->window)) {
    shard_view_close(served);
    free(s);
    return -ENOMEM;
  }
  *out = s;
  return 0;
}

/* Refuses a directory whose descriptor the kernel does not know: another library that keeps its own
 * directories (DAOS, UnifyFS) has made up the number. Returns -EOPNOTSUPP. */
static int refuse_foreign(void) {
  static atomic_bool reported;
  shard_once_report(&reported,
                    "another preloaded library serves a directory, so libshard cannot tell whether "
                    "the directory is of SHARD_DATASET; listing calls on it fail: unset "
                    "SHARD_DATASET, or preload only one of the two libraries");
  return -EOPNOTSUPP;
}

/* Serves a directory that libc has opened. Errors: NULL and errno; the directory is closed. */
static DIR *serve_opened(DIR *dir) {
  if (!dir || shard_guard_passes()) {
    return dir;
  }
  struct stream *s;
  int saved = errno;
  drop_stream(dir);
  int rc = new_stream(dirfd(dir), &s);
  if (rc == 0 && s && (rc = shard_handles_insert(&streams, dir, s)) != 0) {
    free_stream(s);
  }
  errno = saved;
  if (rc != 0) {
    shard_real()->closedir(dir);
    fail_with(rc == -EBADF ? refuse_foreign() : rc);
  }
  return rc == 0 ? dir : NULL;
}

SHARD_EXPORT DIR *opendir(const char *name) { return serve_opened(shard_real()->opendir(name)); }

SHARD_EXPORT DIR *fdopendir(int fd) {
  const struct shard_real *real = shard_real();
  if (shard_guard_passes()) {
    return real->fdopendir(fd);
  }
  /* Before libc's fdopendir(): on failure the descriptor stays open and the caller's. */
  struct stream *s;
  int saved = errno, rc = new_stream(fd, &s);
  if (rc != 0 && rc != -EBADF) {
    fail_with(rc);
    return NULL;
  }
  errno = saved;
  DIR *dir = real->fdopendir(fd);
  if (dir) {
    drop_stream(dir);
    rc = rc == -EBADF ? new_stream(fd, &s) : rc;
  }
  if (!dir || (rc == 0 && !s)) {
    free_stream(s);
    return dir;
  }
  rc = rc == -EBADF ? refuse_foreign() : rc ? rc : shard_handles_insert(&streams, dir, s);
  if (rc != 0) {
    /* The DIR owns the descriptor, and cannot give it back: closedir() closes both. */
    free_stream(s);
    real->closedir(dir);
    fail_with(rc);
    return NULL;
  }
  return dir;
}

SHARD_EXPORT int closedir(DIR *dir) {
  drop_stream(dir);
  return shard_real()->closedir(dir);
}

/* ---- reading ---- */

/* Fetches the next entry in the view's order. Returns 1; 0 at the end. */
static int next_unshuffled(struct stream *s, int fd, struct dirent64 **out) {
  if (s->at >= s->filled) {
    shard_guard_depth++;
    ssize_t n = shard_view_read(s->served, fd, s->buffer, sizeof(s->buffer), &s->ahead);
    shard_guard_depth--;
    n = n == -ENOENT ? 0 : n; /* as in libc, a removed directory is at its end */
    s->at = 0;
    s->filled = n > 0 ? (size_t)n : 0;
    if (n <= 0) {
      return (int)n;
    }
  }
  struct dirent64 *entry = (struct dirent64 *)(s->buffer + s->at);
  s->at += entry->d_reclen;
  *out = entry;
  return 1;
}

/* Fetches the next entry in the window's order. Returns as next_unshuffled(). */
static int next_shuffled(struct stream *s, int fd, struct dirent64 **out) {
  while (shard_window_wants(s->window)) {
    struct dirent64 *entry = NULL;
    int rc = next_unshuffled(s, fd, &entry);
    if (rc >= 0) {
      rc = shard_window_put(s->window, entry);
    }
    if (rc < 0) {
      s->at -= entry ? entry->d_reclen : 0; /* the caller may read on: keep the entry */
      return rc;
    }
  }
  *out = shard_window_take(s->window);
  return *out != NULL;
}

/*
 * Starts the directory anew, at the first read after rewinddir(). Not in rewinddir() itself: a
 * program may rewind a directory for a later user of the descriptor, as Python does; and a read can
 * return an error.
 */
static int begin_anew(struct stream *s) {
  shard_guard_depth++;
  int rc = shard_view_rewind(s->served);
  shard_guard_depth--;
  if (rc == 0 && s->window) {
    shard_window_reset(s->window, shard_view_window_key(s->served));
  }
  s->rewound = rc != 0;
  return rc;
}

/* Reads the next entry for the program. The caller has locked the stream. */
static int next_entry(struct stream *s, int fd, struct dirent64 **out) {
  int rc = s->rewound ? begin_anew(s) : 0;
  if (rc < 0) {
    return rc;
  }
  rc = s->window ? next_shuffled(s, fd, out) : next_unshuffled(s, fd, out);
  if (rc > 0) {
    s->position = (*out)->d_off;
  }
  return rc;
}

static struct dirent64 *read_locked(struct stream *s, DIR *dir) {
  struct dirent64 *entry = NULL;
  int saved = errno;
  lock_stream(s);
  int rc = next_entry(s, dirfd(dir), &entry);
  unlock_stream(s);
  errno = saved;
  if (rc < 0) {
    fail_with(rc);
  }
  return rc > 0 ? entry : NULL;
}

/* Reads an entry of a DIR that may have a stream. */
static __attribute__((noinline)) struct dirent *read_from_any(DIR *dir) {
  struct stream *s = shard_handles_find(&streams, dir);
  return s ? (struct dirent *)read_locked(s, dir) : shard_real()->readdir(dir);
}

SHARD_EXPORT struct dirent *readdir(DIR *dir) {
  return has_no_stream() ? shard_real_table.readdir(dir) : read_from_any(dir);
}

SHARD_ALIAS(readdir64, readdir);

/* Returns the length of a name, which may be longer than d_name's array. */
static size_t name_length(const struct dirent64 *entry) {
  return strlen((const char *)entry + offsetof(struct dirent64, d_name));
}

/*
 * Does readdir_r's work. As in libc, an entry whose name is longer than NAME_MAX is skipped, and
 * reported at the end. Padding is not copied: the caller's struct may end after a name of NAME_MAX
 * bytes.
 */
static int copy_entry(struct stream *s, DIR *dir, struct dirent64 *to, struct dirent64 **result) {
  struct dirent64 *entry = NULL;
  int saved = errno, rc;
  lock_stream(s);
  while ((rc = next_entry(s, dirfd(dir), &entry)) > 0 && name_length(entry) > NAME_MAX) {
    s->too_long = true;
  }
  if (rc > 0) {
    size_t room = offsetof(struct dirent64, d_name) + NAME_MAX + 1;
    size_t size = entry->d_reclen < room ? entry->d_reclen : room;
    memcpy(to, entry, size);
    to->d_reclen = (unsigned short)size;
  }
  bool too_long = s->too_long;
  unlock_stream(s);
  errno = saved;
  *result = rc > 0 ? to : NULL;
  return rc < 0 ? -rc : rc == 0 && too_long ? ENAMETOOLONG : 0;
}

SHARD_EXPORT int readdir_r(DIR *restrict dir, struct dirent *restrict entry,
                           struct dirent **restrict result) {
  struct stream *s = shard_handles_find(&streams, dir);
  return s ? copy_entry(s, dir, (struct dirent64 *)entry, (struct dirent64 **)result)
           : shard_real()->readdir_r(dir, entry, result);
}

SHARD_ALIAS(readdir64_r, readdir_r);

/* ---- positions ---- */

/* Moves a stream to a position of telldir(). */
static void move_to(struct stream *s, DIR *dir, off_t position) {
  int saved = errno;
  struct dirent64 *entry;
  lock_stream(s);
  lseek(dirfd(dir), s->window ? 0 : position, SEEK_SET);
  s->at = s->filled = 0;
  s->too_long = false;
  s->position = s->ahead = s->window ? 0 : position;
  s->rewound = position == 0;
  if (s->window) {
    shard_window_reset(s->window, shard_view_window_key(s->served));
    while ((off_t)shard_window_taken(s->window) < position &&
           next_entry(s, dirfd(dir), &entry) > 0) {
    }
  }
  unlock_stream(s);
  errno = saved;
}

SHARD_EXPORT void rewinddir(DIR *dir) {
  struct stream *s = shard_handles_find(&streams, dir);
  if (s) {
    move_to(s, dir, 0);
  } else {
    shard_real()->rewinddir(dir);
  }
}

SHARD_EXPORT void seekdir(DIR *dir, long position) {
  struct stream *s = shard_handles_find(&streams, dir);
  if (s) {
    move_to(s, dir, position);
  } else {
    shard_real()->seekdir(dir, position);
  }
}

SHARD_EXPORT long telldir(DIR *dir) {
  struct stream *s = shard_handles_find(&streams, dir);
  if (!s) {
    return shard_real()->telldir(dir);
  }
  lock_stream(s);
  long position = s->position;
  unlock_stream(s);
  return position;
}

/* ---- for scandir, ftw and fts ---- */

/* Opens a directory below `at`. As in libc, the open is no cancellation point. */
static DIR *open_below(int at, const char *name) {
  int fd = shard_kernel_open(at, name, O_RDONLY | O_NONBLOCK | O_DIRECTORY);
  DIR *dir = fd < 0 ? NULL : shard_real()->fdopendir(fd);
  if (!dir) {
    shard_kernel_close(fd);
  }
  return dir;
}

DIR *shard_dir_open(int at, const char *name) {
  return at == AT_FDCWD ? opendir(name) : serve_opened(open_below(at, name));
}

int shard_dir_next(DIR *dir, const struct dirent **entry) {
  int saved = errno;
  errno = 0;
  *entry = readdir(dir);
  if (!*entry && errno != 0) {
    return -1;
  }
  errno = saved;
  return *entry != NULL;
}

void shard_dir_close(DIR *dir) {
  int saved = errno;
  closedir(dir);
  errno = saved;
}

bool shard_dir_is_dot(const char *name) {
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}
