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
#include <unistd.h>

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

static bool is_same(const struct statx *a, const struct statx *b) {
  return a->stx_ino == b->stx_ino && shard_climb_device(a) == shard_climb_device(b);
}

/* Prepend the name that directory `child` has in the directory open as `parent`: all are tried. */
static int prepend_child(int parent, const struct statx *child, struct upward *p) {
  char buf[1024] __attribute__((aligned(8)));
  int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = -ENOENT;
  ssize_t n;
  while (fd >= 0 && rc == -ENOENT && (n = shard_real()->getdents64(fd, buf, sizeof(buf))) > 0) {
    for (ssize_t at = 0; rc == -ENOENT && at < n;) {
      const struct dirent64 *d = (const struct dirent64 *)(buf + at);
      struct statx st;
      at += d->d_reclen;
      if ((d->d_type == DT_DIR || d->d_type == DT_UNKNOWN) && strcmp(d->d_name, "..") != 0 &&
          strcmp(d->d_name, ".") != 0 && shard_climb_stat(fd, d->d_name, &st) == 0 &&
          S_ISDIR(st.stx_mode) && is_same(&st, child)) {
        rc = prepend(p, d->d_name, strlen(d->d_name));
      }
    }
  }
  if (fd >= 0) {
    close(fd);
  }
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
    int parent = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    rc = parent < 0 ? -errno : shard_climb_stat(at, "", &here);
    if (rc == 0) {
      rc = prepend_child(parent, &here, &p);
    }
    if (at != fd) {
      close(at);
    }
    at = parent;
    levels--;
  }
  if (at != fd && at >= 0) {
    close(at);
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

/* ---- which root --------------------------------------------------------------------------------
 */

/* Put `first` before *path, which is malloc'd anew. */
static int join(const char *first, char **path) {
  char *whole = NULL;
  int rc = asprintf(&whole, "%s%s%s", first, **path ? "/" : "", *path) < 0 ? -ENOMEM : 0;
  free(*path);
  *path = rc == 0 ? whole : NULL;
  return rc;
}

/*
 * The parent of the last directory that was found to lie outside all roots. Its other children lie
 * outside, too, while it stays where it is: a move changes its ctime. (One above it may be moved
 * into a dataset; but then somebody lists that first, and this is forgotten.) So a walk of a tree
 * that is not served does not go up from each directory.
 */
static _Thread_local struct {
  uint64_t dev, ino, mount;
  int64_t sec;
  uint32_t nsec;
} outside;

static bool is_outside(const struct statx *st) {
  return st->stx_ino == outside.ino && st->stx_ctime.tv_nsec == outside.nsec &&
         st->stx_ctime.tv_sec == outside.sec && st->stx_mnt_id == outside.mount &&
         shard_climb_device(st) == outside.dev;
}

static void note_outside(const struct statx *st) {
  outside.dev = shard_climb_device(st);
  outside.ino = st->stx_ino;
  outside.mount = st->stx_mnt_id;
  outside.sec = st->stx_ctime.tv_sec;
  outside.nsec = st->stx_ctime.tv_nsec;
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

/* shard_place_find(), going up. */
__attribute__((noinline)) static int find_above(int fd, const struct statx *st,
                                                const struct shard_climb_root *roots, size_t count,
                                                size_t *which, char **path) {
  struct shard_climb climb;
  char *mounted = NULL;
  int rc = shard_climb_find(fd, st, roots, count, &climb);
  if (climb.mount_count > 0) {
    int found = find_mounted(&climb, roots, count, &mounted);
    rc = found != 0 ? found : rc; /* it lies below the root that was met, if there is one */
  }
  if (rc != 0) {
    outside.ino = 0;
  } else if (!(st->stx_attributes & STATX_ATTR_MOUNT_ROOT) && climb.levels > 0) {
    note_outside(&climb.parent);
  }
  if (rc <= 0) {
    return rc;
  }
  *which = climb.which;
  rc = find_names(fd, climb.levels, path);
  if (rc == 0 && mounted) {
    rc = join(mounted, path);
  }
  free(mounted);
  return rc == 0 ? 1 : rc;
}

int shard_place_find(int fd, const struct statx *st, const struct shard_climb_root *known,
                     size_t count, size_t *which, char **path) {
  struct shard_climb_root *roots = __builtin_alloca(count * sizeof(*roots));
  bool is_root = false;
  struct statx parent;
  for (size_t i = 0; i < count; i++) {
    roots[i] = known[i];
    shard_climb_look(&roots[i]);
    is_root |= roots[i].ino == st->stx_ino && roots[i].dev == shard_climb_device(st);
  }
  if (!is_root && outside.ino != 0 && !(st->stx_attributes & STATX_ATTR_MOUNT_ROOT) &&
      shard_climb_stat(fd, "..", &parent) == 0 && is_outside(&parent)) {
    return 0;
  }
  return find_above(fd, st, roots, count, which, path);
}
