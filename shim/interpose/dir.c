/* SPDX-License-Identifier: MIT */
/*
 * dir.c - opendir and its family. host/exports.def has the list of all wrapped calls.
 *
 * A served directory keeps libc's own DIR and descriptor. Beside them we keep a stream, found by
 * the DIR's address: shard_view_read() fills its buffer, and libc's stays empty. So telldir gives
 * d_off, and seekdir sets the file's offset, as in libc. If a window shuffles the stream, telldir
 * counts entries, and seekdir repeats the shuffle up to that count.
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

#define BUFFER_SIZE 65536 /* fewer calls than with libc's 32 KB */

struct stream {
  struct shard_served *served;
  struct shard_window *window; /* NULL: the stream is not shuffled */
  atomic_uint lock;            /* 0, or the generation that holds it */
  off_t position;              /* behind the entry that was given out last */
  off_t ahead;                 /* behind the last entry in the buffer */
  bool too_long;               /* readdir_r has passed over an entry */
  bool rewound;                /* shard_view_rewind() is to be called before the next read */
  size_t at, filled;
  char buffer[BUFFER_SIZE] __attribute__((aligned(16)));
};

/* Until shard_dir_enable() it counts as used, so that no call goes to an empty table. */
static struct shard_handles streams = {.used = 1};

void shard_dir_enable(void) { atomic_fetch_sub(&streams.used, 1); }

/* Then the call is libc's: this is all that it costs a program that lists nothing of ours. */
static inline bool has_no_stream(void) {
  return atomic_load_explicit(&streams.used, memory_order_acquire) == 0;
}

_Thread_local int shard_dir_refused;

/* Fail for a reason of ours; rc: a negative errno. */
static void refuse(int rc) { errno = shard_dir_refused = -rc; }

/* ---- one thread at a time on a stream ---- */

/* Counts forks. A thread that locked in an older generation is not in this process: its lock is
 * free. */
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

/* Drop our stream of a DIR: it is being closed, or libc gives its address out anew, since it was
 * closed past us. */
static void drop_stream(const DIR *dir) {
  if (!has_no_stream()) {
    free_stream(shard_handles_remove(&streams, dir));
  }
}

/* A stream for a descriptor; *out is NULL if the directory is not served. 0 or a negative errno. */
static int new_stream(int fd, struct stream **out) {
  struct shard_served *served;
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

/* The descriptor of a directory that was opened is none of the kernel's: another library, which
 * keeps directories of its own (DAOS, UnifyFS), has made the number up. */
static int refuse_foreign(void) {
  static atomic_bool said;
  shard_once_complain(&said, "a directory is served by another preloaded library, so libshard "
                             "cannot tell whether it is of SHARD_DATASET, and listing calls on it "
                             "fail: unset SHARD_DATASET, or do not preload both");
  return -EOPNOTSUPP;
}

/* Serve a directory that libc has opened. NULL and errno: it is closed. */
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
    refuse(rc == -EBADF ? refuse_foreign() : rc);
  }
  return rc == 0 ? dir : NULL;
}

SHARD_EXPORT DIR *opendir(const char *name) { return serve_opened(shard_real()->opendir(name)); }

SHARD_EXPORT DIR *fdopendir(int fd) {
  const struct shard_real *real = shard_real();
  if (shard_guard_passes()) {
    return real->fdopendir(fd);
  }
  /* Decide first: on failure the descriptor stays the caller's, and open. */
  struct stream *s;
  int saved = errno, rc = new_stream(fd, &s);
  if (rc != 0 && rc != -EBADF) {
    refuse(rc);
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
    /* The DIR owns the descriptor by now; there is no way to give it back. */
    free_stream(s);
    real->closedir(dir);
    refuse(rc);
    return NULL;
  }
  return dir;
}

SHARD_EXPORT int closedir(DIR *dir) {
  drop_stream(dir);
  return shard_real()->closedir(dir);
}

/* ---- reading ---- */

/* The next entry in the order of the view: 1, 0 at the end, or a negative errno. */
static int fetch_entry(struct stream *s, int fd, struct dirent64 **out) {
  if (s->at >= s->filled) {
    shard_guard_depth++;
    ssize_t n = shard_view_read(s->served, fd, s->buffer, sizeof(s->buffer), &s->ahead);
    shard_guard_depth--;
    n = n == -ENOENT ? 0 : n; /* as in libc a directory that was removed has ended */
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

static int fetch_shuffled(struct stream *s, int fd, struct dirent64 **out) {
  while (shard_window_wants(s->window)) {
    struct dirent64 *entry = NULL;
    int rc = fetch_entry(s, fd, &entry);
    if (rc >= 0) {
      rc = shard_window_put(s->window, entry);
    }
    if (rc < 0) {
      s->at -= entry ? entry->d_reclen : 0; /* the caller may go on: do not lose it */
      return rc;
    }
  }
  *out = shard_window_take(s->window);
  return *out != NULL;
}

/* Not in rewinddir() itself: a program may rewind a directory for the next one who has its
 * descriptor, and not read it, as Python does; and a read can say that it has failed. */
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

/* The next entry for the program. The stream is locked. */
static int next_entry(struct stream *s, int fd, struct dirent64 **out) {
  int rc = s->rewound ? begin_anew(s) : 0;
  if (rc < 0) {
    return rc;
  }
  rc = s->window ? fetch_shuffled(s, fd, out) : fetch_entry(s, fd, out);
  if (rc > 0) {
    s->position = (*out)->d_off;
  }
  return rc;
}

static struct dirent64 *read_entry(struct stream *s, DIR *dir) {
  struct dirent64 *entry = NULL;
  int saved = errno;
  lock_stream(s);
  int rc = next_entry(s, dirfd(dir), &entry);
  unlock_stream(s);
  errno = saved;
  if (rc < 0) {
    refuse(rc);
  }
  return rc > 0 ? entry : NULL;
}

/* A DIR that may have a stream of ours. */
static __attribute__((noinline)) struct dirent *read_any_entry(DIR *dir) {
  struct stream *s = shard_handles_find(&streams, dir);
  return s ? (struct dirent *)read_entry(s, dir) : shard_real()->readdir(dir);
}

SHARD_EXPORT struct dirent *readdir(DIR *dir) {
  return has_no_stream() ? shard_real_table.readdir(dir) : read_any_entry(dir);
}

SHARD_ALIAS(readdir64, readdir);

/* A pointer to more than d_name has: the name may be longer. */
static size_t name_length(const struct dirent64 *entry) {
  return strlen((const char *)entry + offsetof(struct dirent64, d_name));
}

/* As libc does, pass over an entry whose name is longer than NAME_MAX, and report it at the end.
 * The caller's entry may have no room behind a name of NAME_MAX bytes: padding is not copied. */
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

/* ---- for the calls that libc does past these ---- */

/* libc, too, opens them where no thread can be cancelled. */
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
