/* SPDX-License-Identifier: MIT */
/*
 * dir.c - opendir and its family.
 *
 * Catalogue
 *   wrapped:     opendir fdopendir closedir readdir readdir64 readdir_r readdir64_r
 *   need none:   rewinddir seekdir telldir dirfd: libc's own do right on libc's own DIR
 *   not yet:     scandir glob ftw nftw fts_* getdents64: libc lists inside them without passing
 *                here, so they show the whole directory
 *   never:       raw system calls, io_uring, static binaries, dlsym() on a libc handle
 *
 * A served directory keeps libc's own DIR and file descriptor; beside it we keep a stream, found
 * by the DIR's address. Entries that belong to other ranks are read and passed over. telldir,
 * seekdir, rewinddir and dirfd are libc's own: a position is a position of the real directory.
 *
 * The table of streams is lock-free, so a fork in the middle of anything leaves it whole: slots
 * are claimed by compare-and-swap, a lookup is made only by a caller that holds the DIR open, and
 * a slot is emptied before the real closedir, after which the address may be used again.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/real.h"
#include "view/view.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define EXPORT __attribute__((visibility("default")))

static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "readdir is readdir64");

/* ---- streams by DIR ------------------------------------------------------------------------ */

#define SLOTS 256
#define TOMBSTONE ((DIR *)1)

struct slot {
  _Atomic(DIR *) dir;
  struct shard_stream *stream; /* written before dir is */
};

struct table {
  struct slot slots[SLOTS];
  _Atomic(struct table *) next;
};

static struct table first_table;
static atomic_int open_streams;

/* Set while this thread is inside our own code: whatever we call there is passed on. */
static _Thread_local int depth;

static size_t hash(const DIR *dir) { return ((uintptr_t)dir >> 4) * 0x9e3779b97f4a7c15ULL >> 56; }

static struct slot *lookup(const DIR *dir) {
  if (atomic_load_explicit(&open_streams, memory_order_acquire) == 0 || !dir) {
    return NULL;
  }
  for (struct table *t = &first_table; t; t = atomic_load(&t->next)) {
    for (size_t i = hash(dir), n = 0; n < SLOTS; i = (i + 1) % SLOTS, n++) {
      DIR *d = atomic_load_explicit(&t->slots[i].dir, memory_order_acquire);
      if (d == dir) {
        return &t->slots[i];
      }
      if (!d) {
        break;
      }
    }
  }
  return NULL;
}

static int insert(DIR *dir, struct shard_stream *stream) {
  static DIR *const reserved = (DIR *)2;
  for (struct table *t = &first_table;;) {
    for (size_t i = hash(dir), n = 0; n < SLOTS; i = (i + 1) % SLOTS, n++) {
      DIR *d = atomic_load(&t->slots[i].dir);
      if ((!d || d == TOMBSTONE) &&
          atomic_compare_exchange_strong(&t->slots[i].dir, &d, reserved)) {
        t->slots[i].stream = stream;
        atomic_fetch_add(&open_streams, 1);
        atomic_store_explicit(&t->slots[i].dir, dir, memory_order_release);
        return 0;
      }
    }
    struct table *next = atomic_load(&t->next);
    if (!next) {
      struct table *fresh = calloc(1, sizeof(*fresh));
      if (!fresh) {
        return -ENOMEM;
      }
      if (atomic_compare_exchange_strong(&t->next, &next, fresh)) {
        next = fresh;
      } else {
        free(fresh);
      }
    }
    t = next;
  }
}

/* ---- opening and closing ------------------------------------------------------------------- */

/* Decide about a DIR that libc has just opened. -errno: it must not be handed out. */
static int adopt(DIR *dir) {
  struct shard_stream *stream;
  depth++;
  int rc = shard_view_open(dirfd(dir), &stream);
  if (rc == 0 && stream) {
    rc = insert(dir, stream);
    if (rc != 0) {
      free(stream);
    }
  }
  depth--;
  return rc;
}

EXPORT DIR *opendir(const char *name) {
  const struct shard_real *real = shard_real();
  if (depth > 0 || !shard_view_active()) {
    return real->opendir(name);
  }
  int saved = errno;
  DIR *dir = real->opendir(name);
  if (!dir) {
    return NULL;
  }
  int rc = adopt(dir);
  if (rc != 0) {
    real->closedir(dir);
    errno = -rc;
    return NULL;
  }
  errno = saved;
  return dir;
}

EXPORT DIR *fdopendir(int fd) {
  const struct shard_real *real = shard_real();
  if (depth > 0 || !shard_view_active()) {
    return real->fdopendir(fd);
  }
  /* Decide first: on failure the descriptor stays the caller's, and open. */
  struct shard_stream *stream;
  int saved = errno;
  depth++;
  int rc = shard_view_open(fd, &stream);
  depth--;
  if (rc != 0) {
    errno = -rc;
    return NULL;
  }
  errno = saved;
  DIR *dir = real->fdopendir(fd);
  if (!dir || !stream) {
    free(stream);
    return dir;
  }
  rc = insert(dir, stream);
  if (rc != 0) {
    /* Giving the DIR back would close the caller's descriptor; fail at reading instead. */
    free(stream);
    real->closedir(dir);
    errno = -rc;
    return NULL;
  }
  return dir;
}

EXPORT int closedir(DIR *dir) {
  struct slot *slot = lookup(dir);
  if (slot) {
    struct shard_stream *stream = slot->stream;
    atomic_store_explicit(&slot->dir, TOMBSTONE, memory_order_release);
    atomic_fetch_sub(&open_streams, 1);
    free(stream);
  }
  return shard_real()->closedir(dir);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* 1, 0 or -errno, with errno as it was. */
static int sees(const struct slot *slot, DIR *dir, const char *name, unsigned char type) {
  int saved = errno;
  depth++;
  int rc = shard_view_sees(slot->stream, dirfd(dir), name, type);
  depth--;
  errno = saved;
  return rc;
}

EXPORT struct dirent *readdir(DIR *dir) {
  const struct slot *slot = lookup(dir);
  if (!slot) {
    return shard_real()->readdir(dir);
  }
  struct dirent *entry;
  while ((entry = shard_real()->readdir(dir))) {
    int rc = sees(slot, dir, entry->d_name, entry->d_type);
    if (rc > 0) {
      return entry;
    }
    if (rc < 0) {
      errno = EIO;
      return NULL;
    }
  }
  return NULL;
}

EXPORT struct dirent64 *readdir64(DIR *dir) { return (struct dirent64 *)readdir(dir); }

EXPORT int readdir_r(DIR *restrict dir, struct dirent *restrict entry,
                     struct dirent **restrict result) {
  const struct slot *slot = lookup(dir);
  int rc;
  while ((rc = shard_real()->readdir_r(dir, entry, result)) == 0 && *result && slot) {
    int seen = sees(slot, dir, entry->d_name, entry->d_type);
    if (seen > 0) {
      return 0;
    }
    if (seen < 0) {
      *result = NULL;
      return EIO;
    }
  }
  return rc;
}

EXPORT int readdir64_r(DIR *restrict dir, struct dirent64 *restrict entry,
                       struct dirent64 **restrict result) {
  return readdir_r(dir, (struct dirent *)entry, (struct dirent **)result);
}
