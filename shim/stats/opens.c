/* SPDX-License-Identifier: MIT */
/*
 * opens.c - which dataset a file is of that was opened: by going up from its directory
 * (host/climb.h). What was found is kept for some directories.
 */
#include "stats/opens.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "base/xxh64.h"
#include "host/climb.h"
#include "listing/options.h"
#include "stats/notes.h"
#include "stats/stats.h"

/* A directory as it was reached. */
struct place {
  uint64_t dev, ino, mount, generation;
  int64_t changed; /* its ctime: it may be moved, and its inode be another directory's later */
  int dataset;     /* -1: none */
  uint32_t base;   /* bytes of its path from the root, with a slash at the end; "" for the root */
};

#define KEPT 64
static struct kept {
  atomic_flag held;
  struct place place;
  char path[456];
} kept_places[KEPT];

/* The roots of the datasets, the last one first: a later one is of the program's own. */
struct roots {
  struct shard_climb_root roots[SHARD_LOG_DATASETS];
  uint32_t count;
};

static void copy_roots(struct roots *out) {
  out->count = shard_notes_datasets();
  for (uint32_t i = 0; i < out->count; i++) {
    struct shard_climb_root *root = &out->roots[out->count - 1 - i];
    *root = (struct shard_climb_root){.path = shard_notes_dataset(i)->root};
    if (shard_notes_is_ready(i)) {
      root->dev = atomic_load(&shard_notes_dataset(i)->dev);
      root->ino = atomic_load(&shard_notes_dataset(i)->ino);
    }
  }
}

/*
 * Look at the roots anew: one may be another directory by now, or there at last. Whether they have
 * changed since *generation, which is then the present one.
 */
static bool refresh_roots(struct roots *r, uint64_t *generation) {
  shard_stats_find_roots();
  /* Before the roots are read: one that is added meanwhile must not count as looked at. */
  uint64_t known = *generation, now = atomic_load(&shard_notes_head->generation);
  copy_roots(r);
  for (uint32_t i = 0; i < r->count; i++) {
    struct shard_climb_root *root = &r->roots[r->count - 1 - i];
    struct statx st;
    int fd = shard_notes_is_ready(i) && *root->path == '/' ? shard_climb_open(root->path, &st) : -1;
    if (fd >= 0) {
      shard_climb_close(fd);
    }
    if (fd >= 0 && (root->ino != st.stx_ino || root->dev != shard_climb_device(&st))) {
      root->ino = st.stx_ino;
      root->dev = shard_climb_device(&st);
      atomic_store(&shard_notes_dataset(i)->dev, root->dev);
      atomic_store(&shard_notes_dataset(i)->ino, root->ino);
      atomic_fetch_add(&shard_notes_head->generation, 1);
      now++;
    }
  }
  *generation = now;
  return now != known;
}

/* Go up from directory fd to a root, as shard_climb_find(). */
static int find_root(int fd, const struct statx *st, uint64_t *generation, struct roots *r,
                     struct shard_climb *out) {
  copy_roots(r);
  int rc = shard_climb_find(fd, st, r->roots, r->count, out);
  if (rc <= 0 && refresh_roots(r, generation)) {
    rc = shard_climb_find(fd, st, r->roots, r->count, out);
  }
  return rc;
}

/*
 * Fill in out->dataset and base, and path[PATH_MAX + 1], for a directory of which *st is known.
 * false: it cannot be told.
 */
__attribute__((noinline)) static bool
locate(int dirfd, const char *directory, const struct statx *st, struct place *out, char *path) {
  int fd = shard_kernel_open(dirfd, directory, O_PATH | O_DIRECTORY);
  if (fd < 0) { /* no descriptor is left, or the directory has just gone */
    return false;
  }
  struct roots r;
  struct shard_climb climb;
  int rc = find_root(fd, st, &out->generation, &r, &climb);
  size_t levels = rc > 0 ? climb.levels : 0;
  *path = 0;
  ssize_t n = levels > 0 ? shard_climb_read_path(fd, path, PATH_MAX) : 0;
  const char *names = n < 0 ? NULL : shard_climb_last_names(path, levels);
  shard_kernel_close(fd);
  if (rc < 0 || !names) { /* no descriptor is left, or there is no /proc */
    return false;
  }
  out->dataset = rc > 0 ? (int)(r.count - 1 - climb.which) : -1;
  if (rc > 0) {
    n -= names - path;
    memmove(path, names, (size_t)n);
    if (n > 0) {
      path[n++] = '/';
    }
    out->base = (uint32_t)n;
  }
  return true;
}

/* Whether it is a name as the dataset has them. */
static bool belongs(const struct shard_log_dataset *d, const char *path, size_t base,
                    const char *name, size_t length) {
  const struct shard_options *o = &d->options;
  uint32_t level = 1;
  bool hidden = *name == '.';
  for (size_t i = 0; i < base; i++) {
    hidden |= path[i] == '.' && (i == 0 || path[i - 1] == '/');
    level += path[i] == '/';
  }
  return (o->depth == 0 || level <= o->depth) && (o->exact == 0 || level == o->exact) &&
         (o->hidden || !hidden) && shard_options_match(o, name, length);
}

/* path: of the directory, with room for the name behind it. false: it is no name of the dataset. */
static bool note_file(int i, char *path, size_t base, const char *name, int fd) {
  struct shard_log_dataset *d = shard_notes_dataset((uint32_t)i);
  struct stat st;
  size_t length = strlen(name);
  if (!belongs(d, path, base, name, length)) {
    return false;
  }
  if (length > NAME_MAX || shard_kernel_fstat(fd, &st) != 0) {
    shard_notes_lose();
    return true;
  }
  if (S_ISDIR(st.st_mode)) {
    return true;
  }
  memcpy(path + base, name, length + 1);
  uint64_t opened = shard_notes_what(i, shard_stats_epoch_now(i), SHARD_LOG_OPENED);
  if (opened) {
    shard_notes_time(i);
    shard_notes_add(shard_xxh64(path, base + length, 0), opened);
  }
  return true;
}

/* The directory of `path`, in out[PATH_MAX], and its last name. NULL: it has none, or no room. */
static const char *split(const char *path, char *out) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  size_t n = slash ? (size_t)(slash - path) : 0;
  if (!*name || n >= PATH_MAX) {
    return NULL;
  }
  memcpy(out, path, n);
  out[n] = 0;
  if (n == 0) {
    strcpy(out, slash ? "/" : ".");
  }
  return name;
}

/* Whether a directory's ctime will tell a change: not within the same tick of its file system's
 * clock, and some count in seconds. */
static bool is_settled(const struct statx *st) {
  return shard_clock_real_ns() / 1000000000 - st->stx_ctime.tv_sec > 2;
}

/* Find the directory, or have found it before. As locate(). */
static bool find_place(int dirfd, const char *directory, const struct statx *st, struct place *out,
                       char *path) {
  uint64_t generation = atomic_load(&shard_notes_head->generation);
  struct place p = {.dev = shard_climb_device(st),
                    .ino = st->stx_ino,
                    .mount = st->stx_mnt_id,
                    .generation = generation,
                    .changed = st->stx_ctime.tv_sec * 1000000000LL + st->stx_ctime.tv_nsec};
  struct kept *kept =
      &kept_places[(p.ino * SHARD_XXH_PRIME1 ^ p.dev * SHARD_XXH_PRIME2) >> 32 & (KEPT - 1)];
  bool held = !atomic_flag_test_and_set(&kept->held), known = true;
  if (held && kept->place.ino == p.ino && kept->place.dev == p.dev &&
      kept->place.mount == p.mount && kept->place.generation == p.generation &&
      kept->place.changed == p.changed) {
    p = kept->place;
    if (p.dataset >= 0) {
      memcpy(path, kept->path, p.base);
    }
  } else {
    known = locate(dirfd, directory, st, &p, path);
    if (held && known && is_settled(st) && (p.dataset < 0 || p.base < sizeof(kept->path))) {
      kept->place = p;
      if (p.dataset >= 0) {
        memcpy(kept->path, path, p.base);
      }
    }
  }
  if (held) {
    atomic_flag_clear(&kept->held);
  }
  *out = p;
  return known;
}

/* It cannot be told where the file is. In /proc directories come and go, and there is no dataset.
 */
static void lose(int fd) {
  struct statfs system;
  if (syscall(SYS_fstatfs, fd, &system) != 0 || system.f_type != PROC_SUPER_MAGIC) {
    shard_notes_lose();
  }
}

/* Note it, if it is a name of a dataset. false: it is none. */
static bool note_in(int fd, int dirfd, const char *directory, const char *name) {
  char path[PATH_MAX + NAME_MAX + 2];
  struct place p;
  struct statx st;
  if (shard_climb_stat(dirfd, directory, &st) != 0 ||
      !find_place(dirfd, directory, &st, &p, path)) {
    lose(fd);
    return true;
  }
  return p.dataset >= 0 && note_file(p.dataset, path, p.base, name, fd);
}

/*
 * A link elsewhere may lead to a dataset's file, such as one in /dev/fd. Within a dataset a link is
 * a name of its own.
 */
__attribute__((noinline)) static void note_linked(int fd, char *directory) {
  char real[PATH_MAX];
  struct stat st;
  ssize_t n = shard_climb_read_path(fd, real, sizeof(real));
  if (n < 0 || shard_kernel_fstat(fd, &st) != 0) {
    shard_notes_lose();
    return;
  }
  bool is_file =
      *real == '/' && !S_ISDIR(st.st_mode) && st.st_nlink > 0; /* no pipe, and not gone */
  const char *name = is_file ? split(real, directory) : NULL;
  if (name) {
    note_in(fd, AT_FDCWD, directory, name);
  }
}

void shard_opens_note(int fd, int dirfd, const char *opened) {
  char directory[PATH_MAX];
  const char *name = split(opened, directory);
  struct stat st;
  if (name && !note_in(fd, dirfd, directory, name) &&
      shard_kernel_stat(dirfd, opened, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
    note_linked(fd, directory);
  }
}
