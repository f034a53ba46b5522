/* SPDX-License-Identifier: MIT */
#include "view/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/path.h"
#include "base/xxh64.h"
#include "host/real.h"

/* ---- names on the way up --------------------------------------------------------------------- */

/* A path that grows at its front. */
struct upward {
  char *data;
  size_t room, length; /* the path is the last `length` bytes before a NUL */
};

static int prepend(struct upward *p, const char *name, size_t length) {
  size_t need = p->length + length + 2;
  if (need > p->room) {
    size_t room = need * 2 + 256;
    char *data = malloc(room);
    if (!data) {
      return -ENOMEM;
    }
    if (p->data) {
      memcpy(data + room - p->length - 1, p->data + p->room - p->length - 1, p->length + 1);
    } else {
      data[room - 1] = 0;
    }
    free(p->data);
    p->data = data;
    p->room = room;
  }
  char *begin = p->data + p->room - 1 - p->length;
  if (p->length > 0) {
    *--begin = '/';
    p->length++;
  }
  memcpy(begin - length, name, length);
  p->length += length;
  return 0;
}

/* Prepend the name that directory `child` has in the directory open as `parent`: all are tried. */
static int prepend_child(int parent, const struct statx *child, struct upward *p) {
  char buf[1024] __attribute__((aligned(8)));
  int fd = shard_kernel_open(parent, ".", O_RDONLY | O_DIRECTORY), rc = fd < 0 ? -errno : -ENOENT;
  ssize_t n;
  while (fd >= 0 && rc == -ENOENT && (n = shard_real()->getdents64(fd, buf, sizeof(buf))) > 0) {
    for (ssize_t at = 0; rc == -ENOENT && at < n;) {
      const struct dirent64 *d = (const struct dirent64 *)(buf + at);
      struct statx st;
      at += d->d_reclen;
      if ((d->d_type == DT_DIR || d->d_type == DT_UNKNOWN) && strcmp(d->d_name, "..") != 0 &&
          strcmp(d->d_name, ".") != 0 && shard_climb_stat(fd, d->d_name, &st) == 0 &&
          S_ISDIR(st.stx_mode) && shard_climb_is_same(&st, child)) {
        rc = prepend(p, d->d_name, strlen(d->d_name));
      }
    }
  }
  shard_kernel_close(fd);
  return rc;
}

/*
 * The last `levels` names of fd's path, malloc'd in *out: by /proc; where that is not mounted, or
 * the path is too long for it, each directory is searched for in its parent.
 */
static __attribute__((noinline)) int find_names(int fd, size_t levels, char **out) {
  struct upward p = {0};
  int at = fd, rc = prepend(&p, "", 0);
  char *text = malloc(PATH_MAX); /* a host's thread may have a small stack */
  if (!text) {
    rc = -ENOMEM;
  }
  while (rc == 0 && levels > 0) {
    ssize_t n = shard_climb_read_names(at, levels, text, PATH_MAX);
    if (n >= 0 || n == -ERANGE) {
      rc = n >= 0 ? prepend(&p, text, (size_t)n) : -ENOENT;
      break;
    }
    struct statx here = {0};
    int parent = shard_kernel_open(at, "..", O_PATH | O_DIRECTORY);
    rc = parent < 0 ? -errno : shard_climb_stat(at, "", &here);
    if (rc == 0) {
      rc = prepend_child(parent, &here, &p);
    }
    if (at != fd) {
      shard_kernel_close(at);
    }
    at = parent;
    levels--;
  }
  if (at != fd && at >= 0) {
    shard_kernel_close(at);
  }
  free(text);
  if (rc == 0) {
    memmove(p.data, p.data + p.room - 1 - p.length, p.length + 1);
    *out = p.data;
  } else {
    free(p.data);
  }
  return rc;
}

/* ---- which root --------------------------------------------------------- */

/* Put `first` before *path, which is malloc'd anew. */
static int join(const char *first, char **path) {
  char *whole = NULL;
  int rc = asprintf(&whole, "%s%s%s", first, *first && **path ? "/" : "", *path) < 0 ? -ENOMEM : 0;
  free(*path);
  *path = rc == 0 ? whole : NULL;
  return rc;
}

/*
 * The root of which one of the mounts on the way up is a part, and the path, malloc'd, from there
 * to the mount. 1, 0 or a negative errno.
 */
__attribute__((noinline)) static int find_mounted(struct shard_climb *climb,
                                                  const struct shard_climb_root *roots,
                                                  size_t count, char **path) {
  char *buf = malloc(PATH_MAX);
  int rc = buf ? shard_climb_find_mounted(climb, roots, count, buf) : -ENOMEM;
  if (rc <= 0) {
    free(buf);
    buf = NULL;
  }
  *path = buf;
  return rc;
}

/*
 * The parent of the last directory that was found to lie outside all roots, by the kernel's path,
 * which tells where it is now, and by its inode and ctime, which tell which one it is: numbers of
 * mounts and names return. Its other children lie outside, too, but for roots and mounts. So a
 * walk of a tree that is not served does not go up from each directory.
 */
static _Thread_local struct {
  uint64_t mount, roots; /* roots: which they were */
  uint64_t dev, ino;
  int64_t sec;
  uint32_t nsec;
  size_t length; /* 0: there is none */
  char parent[232];
} outside;

static uint64_t name_roots(const struct shard_climb_root *roots, size_t count) {
  uint64_t name = 0;
  for (size_t i = 0; i < count; i++) {
    name = ((name ^ roots[i].dev) * SHARD_XXH_PRIME1) ^ (roots[i].ino * SHARD_XXH_PRIME2);
  }
  return name;
}

/* ---- what roots have been ----------------------------------------------- */

static bool is_seen(const struct shard_place_seen *s, const struct shard_climb_root *now) {
  return s && s->root.ino == now->ino && s->root.dev == now->dev && s->root.born == now->born;
}

int shard_place_look(struct shard_place_root *root, struct shard_climb_root *now) {
  const struct shard_place_seen *newest = atomic_load_explicit(&root->seen, memory_order_acquire);
  *now = newest ? newest->root : (struct shard_climb_root){.path = root->path};
  if (*root->path != '/') {
    return -EINVAL; /* it could not be made absolute, so any directory may be of it */
  }
  int rc = shard_climb_look(now);
  if (rc <= 0 || is_seen(newest, now)) {
    return rc < 0 && now->ino != 0 ? 0 : rc;
  }
  struct shard_place_seen *seen = malloc(sizeof(*seen));
  if (!seen) {
    return -ENOMEM;
  }
  *seen = (struct shard_place_seen){.older = newest, .root = *now};
  while (!atomic_compare_exchange_weak(&root->seen, &seen->older, seen)) {
  }
  return 1;
}

/*
 * Whether directory fd lies in what one of the roots has been before, as shard_place_find().
 * -ESTALE: one had its number, and the file system does not tell when it was made.
 */
__attribute__((noinline)) static int find_replaced(int fd, const struct statx *st,
                                                   struct shard_place_root *known, size_t count,
                                                   struct shard_place *out) {
  size_t levels = SIZE_MAX;
  bool sure = true;
  for (size_t i = 0; i < count; i++) {
    const struct shard_place_seen *s = atomic_load(&known[i].seen);
    while (s && (s = s->older)) {
      struct shard_climb climb;
      if (shard_climb_find(fd, st, &s->root, 1, &climb) > 0 && climb.levels < levels) {
        levels = climb.levels;
        sure = s->root.born != 0;
        out->which = i;
      }
    }
  }
  if (levels == SIZE_MAX) {
    return 0;
  }
  out->covered = true;
  int rc = sure ? find_names(fd, levels, &out->path) : -ESTALE;
  out->which = rc == 0 ? out->which : count;
  return rc == 0 ? 1 : rc;
}

/*
 * The length of the parent's path, with its slash, of a directory that lies where its siblings lie;
 * path begins with it. 0: it may lie elsewhere.
 */
static size_t find_parent(int fd, const struct statx *st, struct shard_place_root *roots,
                          size_t count, char path[sizeof(outside.parent)]) {
  for (size_t i = 0; i < count; i++) {
    for (const struct shard_place_seen *s = atomic_load(&roots[i].seen); s; s = s->older) {
      if (shard_climb_is_root(&s->root, st)) {
        return 0;
      }
    }
  }
  bool apart = !(st->stx_mask & STATX_MNT_ID) || (st->stx_attributes & STATX_ATTR_MOUNT_ROOT);
  ssize_t n = apart ? 0 : shard_climb_read_path(fd, path, sizeof(outside.parent));
  while (n > 0 && path[n - 1] != '/') {
    n--;
  }
  return n > 0 && *path == '/' ? (size_t)n : 0;
}

static bool is_outside(const struct statx *parent) {
  return outside.ino == parent->stx_ino && outside.dev == shard_climb_device(parent) &&
         outside.sec == parent->stx_ctime.tv_sec && outside.nsec == parent->stx_ctime.tv_nsec;
}

/* What the way up has not told. */
__attribute__((noinline)) static int find_unseen(int fd, const struct statx *st,
                                                 const struct shard_climb_root *roots, size_t count,
                                                 struct shard_climb *climb, int rc) {
  char *room = malloc((size_t)2 * PATH_MAX);
  rc = room ? shard_climb_find_unseen(fd, st, roots, count, climb, rc, room) : -ENOMEM;
  free(room);
  return rc;
}

/* 1: a path from the root leads to another directory than *st, or to none. 0: it does not, or this
 * user may not see where it leads. Or a negative errno. */
static int leads_elsewhere(const struct shard_climb_root *root, const char *path,
                           const struct statx *st) {
  struct stat there;
  char *whole = NULL;
  if (asprintf(&whole, "%s/%s", root->path, path) < 0) {
    return -ENOMEM;
  }
  int error = shard_path_stat(AT_FDCWD, whole, &there) == 0 ? 0 : errno;
  free(whole);
  if (error != 0) {
    return error == EACCES ? 0 : shard_path_leads_nowhere(error) ? 1 : -error;
  }
  return there.st_ino != st->stx_ino ||
         there.st_dev != makedev(st->stx_dev_major, st->stx_dev_minor);
}

/*
 * The path from a root to directory fd, which lies `levels` below it, or below a mount of a part of
 * its tree, `mounted`. met: the same by the root that was met on the way up, or NULL. 0 or a
 * negative errno.
 */
static int name_place(int fd, const struct statx *st, const struct shard_climb_root *roots,
                      const struct shard_climb *climb, const struct shard_climb *met,
                      const char *mounted, struct shard_place *out) {
  int rc = find_names(fd, climb->levels, &out->path);
  out->which = climb->which;
  if (rc != 0 || !mounted || (rc = join(mounted, &out->path)) != 0) {
    return rc;
  }
  rc = leads_elsewhere(&roots[climb->which], out->path, st);
  if (rc < 0) {
    free(out->path);
    return rc;
  }
  out->covered = rc > 0;
  if (!out->covered || !met) {
    return 0;
  }
  free(out->path);
  out->covered = false; /* by the root that was met it has a path of its own */
  return name_place(fd, st, roots, met, NULL, NULL, out);
}

int shard_place_find(int fd, const struct statx *st, struct shard_place_root *known, size_t count,
                     struct shard_place *out) {
  struct shard_climb_root *roots = __builtin_alloca(count * sizeof(*roots));
  struct shard_climb climb, met;
  char *mounted = NULL;
  *out = (struct shard_place){.which = count};
  for (size_t i = 0; i < count; i++) {
    int rc = shard_place_look(&known[i], &roots[i]);
    if (rc < 0) {
      out->which = i;
      return rc;
    }
  }
  char where[sizeof(outside.parent)];
  struct statx upper;
  uint64_t named = name_roots(roots, count);
  size_t parent = find_parent(fd, st, known, count, where);
  parent = parent > 0 && shard_climb_stat(fd, "..", &upper) == 0 ? parent : 0;
  if (parent > 0 && outside.length == parent && outside.mount == st->stx_mnt_id &&
      outside.roots == named && is_outside(&upper) && memcmp(outside.parent, where, parent) == 0) {
    return 0;
  }
  int rc = shard_climb_find(fd, st, roots, count, &climb);
  /* Below the root that was met, mounts matter only if they are of another one. */
  if (rc < 0 || (climb.blind && (rc == 0 || count > 1))) {
    rc = find_unseen(fd, st, roots, count, &climb, rc);
  }
  bool of_one = rc > 0;
  met = climb;
  if (rc >= 0 && climb.mount_count > 0) {
    int found = find_mounted(&climb, roots, count, &mounted);
    rc = found != 0 ? found : rc; /* it lies below the root that was met, if there is one */
  }
  if (rc == 0 && (rc = find_replaced(fd, st, known, count, out)) != 0) {
    return rc;
  }
  if (rc == 0 && parent > 0) {
    outside.mount = st->stx_mnt_id;
    outside.roots = named;
    outside.dev = shard_climb_device(&upper);
    outside.ino = upper.stx_ino;
    outside.sec = upper.stx_ctime.tv_sec;
    outside.nsec = upper.stx_ctime.tv_nsec;
    outside.length = parent;
    memcpy(outside.parent, where, parent);
  }
  if (rc <= 0) {
    return rc;
  }
  struct shard_place place = {.path = NULL};
  rc = name_place(fd, st, roots, &climb, of_one ? &met : NULL, mounted, &place);
  free(mounted);
  *out = rc == 0 ? place : *out;
  return rc == 0 ? 1 : rc;
}
