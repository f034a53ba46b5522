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

#include "base/kernel.h"
#include "base/path.h"
#include "base/workspace.h"
#include "base/xxh64.h"
#include "host/locate.h"

/* The datasets. The program's own are searched first, because they may lie in the others. */
static struct shard_opens_dataset datasets[SHARD_LOG_DATASETS];
static atomic_uint claimed, added; /* slots */
static struct group {
  struct shard_dataset_root roots[SHARD_LOG_DATASETS];
  int number[SHARD_LOG_DATASETS];
  atomic_uint count;
} groups[2]; /* of SHARD_DATASET, and of the program */

struct shard_opens_dataset *shard_opens_dataset(int i) {
  return &datasets[i];
}

int shard_opens_find(const char *path, bool program) {
  unsigned n = atomic_load(&added);
  for (unsigned i = 0; i < n; i++) {
    /* A client's prefix ends in a slash; an item of SHARD_DATASET need not. */
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
  /* One thread adds at a time. A child that is forked meanwhile adds none. */
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
    group->roots[k].fixed = true; /* an open must not cost a look at each root */
    group->number[k] = (int)i;
  }
  atomic_store(&added, i + 1);
  atomic_store(&group->count, k + (*copy == '/'));
  return (int)i;
}

/* Print root, rest and a slash into buf[size]; rest may lie more than PATH_MAX bytes behind buf.
 * Returns the length; 0: it does not fit. */
static size_t join(char *buf, size_t size, const char *root, const char *rest) {
  size_t n = strlen(root), m = strlen(rest), slash = n > 0 && root[n - 1] != '/';
  if (n + slash + m + 2 > size) {
    return 0;
  }
  memcpy(buf, root, n);
  buf[n] = '/';
  memmove(buf + n + slash, rest, m);
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
    struct shard_inode_root now;
    if (group->number[k] == i) {
      if (!atomic_load(&group->roots[k].first)) {
        shard_locate_root(&group->roots[k], &now);
      }
      const struct shard_inode_root *first = atomic_load(&group->roots[k].first);
      return first ? join(buf, size, first->path, "") : 0;
    }
  }
  return join(buf, size, datasets[i].path, "");
}

/* ---- where a directory is ----------------------------------------------- */

/* The directory of an opened file. */
struct spot {
  int dataset;       /* -1: none */
  size_t root, base; /* bytes of the root's path and of `path`; each ends with a slash */
  char *path;        /* canonical; PATH_ROOM bytes, and room for a name */
};

#define PATH_ROOM (2UL * PATH_MAX)
static_assert(PATH_ROOM + NAME_MAX + 2 <= SHARD_WORKSPACE_SIZE, "a name goes behind the path");
static_assert(2 * PATH_MAX + 2 <= SHARD_WORKSPACE_SIZE, "the root's path, and that from the root");

/* Find the dataset of a directory. Returns false if it cannot be told. */
__attribute__((noinline)) static bool locate(int dirfd, const char *directory, struct spot *s) {
  struct statx st;
  int rc = 0, fd = shard_inode_stat(dirfd, directory, &st) == 0
                       ? shard_kernel_open(dirfd, directory, O_PATH | O_DIRECTORY)
                       : -1;
  if (fd < 0) { /* no descriptor is free, or the directory was removed */
    return false;
  }
  s->dataset = -1;
  for (int program = 1; program >= 0 && rc == 0; program--) {
    struct group *group = &groups[program];
    struct shard_location place;
    unsigned n = atomic_load(&group->count);
    char *below = s->path + PATH_MAX + 2; /* behind a root's path, a slash and NUL */
    rc = n > 0 ? shard_locate_directory(fd, &st, group->roots, n, &place, below) : 0;
    if (rc > 0) {
      const struct shard_inode_root *first = atomic_load(&group->roots[place.which].first);
      s->dataset = group->number[place.which];
      s->root = first ? join(s->path, PATH_ROOM, first->path, "") : 0;
      s->base = first ? join(s->path, PATH_ROOM, first->path, below) : 0;
      rc = s->base > 0 ? 1 : -ENAMETOOLONG;
    }
  }
  shard_kernel_close(fd);
  return rc >= 0;
}

/* ---- a file ------------------------------------------------------------- */

/* Returns whether a name in directory path[base] below the root is one of the dataset's names. */
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

/* Print the directory of `path` into out[PATH_MAX]. Returns the last name; NULL: none, or no room.
 */
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

/* Count the open as lost, because its dataset cannot be told; but not in /proc, whose directories
 * come and go. */
static int lose(int fd) {
  struct statfs system;
  if (syscall(SYS_fstatfs, fd, &system) != 0 || system.f_type != PROC_SUPER_MAGIC) {
    shard_log_lose();
  }
  return -1;
}

/* Returns the number of the dataset that has the name; -1: none. *outside: the name is in no
 * dataset's directory, or is not one of the dataset's names. */
static int find_name(int fd, int dirfd, const char *directory, const char *name, uint64_t *hash,
                     bool *outside) {
  SHARD_WORKSPACE(path);
  struct spot s = {.path = path};
  struct stat file;
  size_t length = strlen(name);
  *outside = false;
  if (!path || !locate(dirfd, directory, &s)) {
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

/* Returns the same for the file that a link outside of all datasets leads to, such as a link in
 * /dev/fd. Within a dataset a link is a name of its own. */
__attribute__((noinline)) static int find_linked(int fd, char *directory, uint64_t *hash) {
  SHARD_WORKSPACE(real);
  struct stat st;
  bool ignored;
  ssize_t n = real ? shard_inode_path(fd, real, PATH_MAX) : -1;
  if (n < 0 || shard_kernel_fstat(fd, &st) != 0) {
    return lose(fd);
  }
  bool is_file =
      *real == '/' && !S_ISDIR(st.st_mode) && st.st_nlink > 0; /* no pipe, and not removed */
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
