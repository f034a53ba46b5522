/* SPDX-License-Identifier: MIT */
#include "stats/opens.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "base/path.h"
#include "base/workspace.h"
#include "base/xxh64.h"
#include "host/place.h"

/* The datasets. Those that a program divides are looked at first: they may lie in the others. */
static struct shard_opens_dataset datasets[SHARD_LOG_DATASETS];
static atomic_uint claimed, added; /* slots */
static struct group {
  struct shard_place_root roots[SHARD_LOG_DATASETS];
  int number[SHARD_LOG_DATASETS];
  atomic_uint count;
} groups[2]; /* of SHARD_DATASET, and of the program */

struct shard_opens_dataset *shard_opens_dataset(int i) {
  return &datasets[i];
}

int shard_opens_find(const char *path, bool program) {
  unsigned n = atomic_load(&added);
  for (unsigned i = 0; i < n; i++) {
    /* A client's prefix has a slash at its end, and an item of SHARD_DATASET may have none. */
    const char *below = shard_path_below(path, datasets[i].path);
    if (datasets[i].program == program && below && !*below) {
      return (int)i;
    }
  }
  return -1;
}

int shard_opens_add(const char *path, bool program, const struct shard_options *options) {
  int found = shard_opens_find(path, program);
  char *copy = found < 0 ? strdup(path) : NULL;
  if (!copy) {
    return found;
  }
  /* One thread at a time; a child that was forked meanwhile adds no more. */
  unsigned i = atomic_load(&added), next = i;
  if (i >= SHARD_LOG_DATASETS || !atomic_compare_exchange_strong(&claimed, &next, i + 1)) {
    free(copy);
    shard_log_lose();
    return -1;
  }
  datasets[i] = (struct shard_opens_dataset){copy, program, *options};
  struct group *group = &groups[program];
  unsigned k = atomic_load(&group->count);
  if (*copy == '/') {
    group->roots[k].path = copy;
    group->number[k] = (int)i;
  }
  atomic_store(&added, i + 1);
  atomic_store(&group->count, k + (*copy == '/'));
  return (int)i;
}

static size_t join(char *buf, size_t size, const char *root, const char *rest) {
  size_t n = strlen(root), m = strlen(rest), slash = n > 0 && root[n - 1] != '/';
  if (n + slash + m + 2 > size) {
    return 0;
  }
  memcpy(buf, root, n);
  buf[n] = '/';
  memcpy(buf + n + slash, rest, m);
  n += slash + m;
  if (m > 0) {
    buf[n++] = '/';
  }
  buf[n] = 0;
  return n;
}

size_t shard_opens_root(int i, char *buf, size_t size) {
  struct group *group = &groups[datasets[i].program];
  for (unsigned k = 0; k < atomic_load(&group->count); k++) {
    struct shard_climb_root now;
    if (group->number[k] == i) {
      if (!atomic_load(&group->roots[k].first)) {
        shard_place_look(&group->roots[k], &now);
      }
      const struct shard_climb_root *first = atomic_load(&group->roots[k].first);
      return first ? join(buf, size, first->path, "") : 0;
    }
  }
  return join(buf, size, datasets[i].path, "");
}

/* ---- where a directory is ----------------------------------------------- */

/* A directory as it was reached. */
struct spot {
  uint64_t dev, ino, mount;
  int64_t changed;     /* its ctime: it may be moved, and its inode be another directory's later */
  unsigned added;      /* how many datasets there were */
  int dataset;         /* -1: none */
  uint32_t base, root; /* bytes of `path`, with a slash at the end; of the root's part of it */
};

#define KEPT 1024
static struct kept {
  atomic_flag held;
  struct spot spot;
  char path[424];
} kept_spots[KEPT];

#define PATH_ROOM (2UL * PATH_MAX)
static_assert(PATH_ROOM + NAME_MAX + 2 <= SHARD_WORKSPACE_SIZE, "a name goes behind the path");

/* Fill in s->dataset and base, and path[PATH_ROOM]. false: it cannot be told. */
__attribute__((noinline)) static bool
find_spot(int dirfd, const char *directory, const struct statx *st, struct spot *s, char *path) {
  int fd = shard_kernel_open(dirfd, directory, O_PATH | O_DIRECTORY), rc = 0;
  if (fd < 0) { /* no descriptor is left, or the directory has just gone */
    return false;
  }
  s->dataset = -1;
  for (int program = 1; program >= 0 && rc == 0; program--) {
    struct group *group = &groups[program];
    struct shard_place place;
    unsigned n = atomic_load(&group->count);
    rc = n > 0 ? shard_place_find(fd, st, group->roots, n, &place) : 0;
    if (rc > 0) {
      const struct shard_climb_root *first = atomic_load(&group->roots[place.which].first);
      s->dataset = group->number[place.which];
      s->root = first ? (uint32_t)join(path, PATH_ROOM, first->path, "") : 0;
      s->base = first ? (uint32_t)join(path, PATH_ROOM, first->path, place.path) : 0;
      rc = s->base > 0 ? 1 : -ENAMETOOLONG;
      free(place.path);
    }
  }
  shard_kernel_close(fd);
  return rc >= 0;
}

/* Whether a directory's ctime will tell a change: not within the same tick of its file system's
 * clock, and some count in seconds. */
static bool is_settled(const struct statx *st) {
  return shard_clock_real_ns() / 1000000000 - st->stx_ctime.tv_sec > 2;
}

/* Find the directory, or have found it before. As find_spot(). */
static bool locate(int dirfd, const char *directory, const struct statx *st, struct spot *out,
                   char *path) {
  struct spot s = {.dev = shard_climb_device(st),
                   .ino = st->stx_ino,
                   .mount = st->stx_mnt_id,
                   .changed = st->stx_ctime.tv_sec * 1000000000LL + st->stx_ctime.tv_nsec,
                   .added = atomic_load(&added)};
  struct kept *kept =
      &kept_spots[(s.ino * SHARD_XXH_PRIME1 ^ s.dev * SHARD_XXH_PRIME2) >> 32 & (KEPT - 1)];
  bool held = !atomic_flag_test_and_set(&kept->held), known = true;
  if (held && kept->spot.ino == s.ino && kept->spot.dev == s.dev && kept->spot.mount == s.mount &&
      kept->spot.added == s.added && kept->spot.changed == s.changed) {
    s = kept->spot;
    memcpy(path, kept->path, s.base);
  } else {
    known = find_spot(dirfd, directory, st, &s, path);
    if (held && known && is_settled(st) && s.base < sizeof(kept->path)) {
      kept->spot = s;
      memcpy(kept->path, path, s.base);
    }
  }
  if (held) {
    atomic_flag_clear(&kept->held);
  }
  *out = s;
  return known;
}

/* ---- a file ------------------------------------------------------------- */

/* Whether it is a name as the dataset has them; path[base] is its directory's, from the root. */
static bool belongs(const struct shard_options *o, const char *path, size_t base, const char *name,
                    size_t length) {
  uint32_t level = 1;
  bool hidden = *name == '.';
  for (size_t i = 0; i < base; i++) {
    hidden |= path[i] == '.' && (i == 0 || path[i - 1] == '/');
    level += path[i] == '/';
  }
  return (o->depth == 0 || level <= o->depth) && (o->exact == 0 || level == o->exact) &&
         (o->hidden || !hidden) && shard_options_match(o, name, length);
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

/* It cannot be told where the file is. In /proc directories come and go, and there is no dataset.
 */
static int lose(int fd) {
  struct statfs system;
  if (syscall(SYS_fstatfs, fd, &system) != 0 || system.f_type != PROC_SUPER_MAGIC) {
    shard_log_lose();
  }
  return -1;
}

/* The dataset that has the name; -1: none. *outside: it is in no dataset's directory, or no name of
 * the dataset. */
static int find_name(int fd, int dirfd, const char *directory, const char *name, uint64_t *hash,
                     bool *outside) {
  SHARD_WORKSPACE(path);
  struct spot s;
  struct statx st;
  struct stat file;
  size_t length = strlen(name);
  *outside = false;
  if (!path || shard_climb_stat(dirfd, directory, &st) != 0 ||
      !locate(dirfd, directory, &st, &s, path)) {
    return lose(fd);
  }
  *outside = s.dataset < 0 ||
             !belongs(&datasets[s.dataset].options, path + s.root, s.base - s.root, name, length);
  if (*outside) {
    return -1;
  }
  if (length > NAME_MAX || shard_kernel_fstat(fd, &file) != 0) {
    return lose(fd);
  }
  memcpy(path + s.base, name, length + 1);
  *hash = shard_xxh64(path, s.base + length, 0);
  return S_ISDIR(file.st_mode) ? -1 : s.dataset;
}

/* A link elsewhere may lead to a dataset's file, such as one in /dev/fd. Within a dataset a link is
 * a name of its own. */
__attribute__((noinline)) static int find_linked(int fd, char *directory, uint64_t *hash) {
  SHARD_WORKSPACE(real);
  struct stat st;
  bool ignored;
  ssize_t n = real ? shard_climb_read_path(fd, real, PATH_MAX) : -1;
  if (n < 0 || shard_kernel_fstat(fd, &st) != 0) {
    return lose(fd);
  }
  bool is_file =
      *real == '/' && !S_ISDIR(st.st_mode) && st.st_nlink > 0; /* no pipe, and not gone */
  const char *name = is_file ? split(real, directory) : NULL;
  return name ? find_name(fd, AT_FDCWD, directory, name, hash, &ignored) : -1;
}

int shard_opens_locate(int fd, int dirfd, const char *opened, uint64_t *hash) {
  SHARD_WORKSPACE(directory);
  struct stat st;
  if (!directory) {
    return lose(fd);
  }
  const char *name = split(opened, directory);
  bool outside = false;
  int found = name ? find_name(fd, dirfd, directory, name, hash, &outside) : -1;
  return outside && shard_kernel_stat(dirfd, opened, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                 S_ISLNK(st.st_mode)
             ? find_linked(fd, directory, hash)
             : found;
}
