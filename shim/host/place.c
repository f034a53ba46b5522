/* SPDX-License-Identifier: MIT */
#include "host/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/path.h"
#include "base/workspace.h"
#include "config/config.h"

#define MOST_TRIES 3 /* while names change */

/* ---- a root ------------------------------------------------------------- */

static atomic_uint changes; /* of what a root has led to */

static bool is_same_root(const struct shard_climb_root *a, const struct shard_climb_root *b) {
  return a->ino == b->ino && a->dev == b->dev && a->mount == b->mount;
}

/* Whether the kernel's path of fd is `path`. */
static bool has_path(int fd, const char *path) {
  size_t room = strlen(path) + 2;
  SHARD_WORKSPACE_OF(now, room);
  return now && shard_climb_read_path(fd, now, room) == (ssize_t)room - 2 &&
         memcmp(now, path, room - 2) == 0;
}

static void warn_of_move(const struct shard_place_root *root, const struct shard_climb_root *first,
                         const struct shard_climb_root *now) {
  static atomic_bool said;
  if (strcmp(first->path, now->path) != 0 && (first->ino != now->ino || first->dev != now->dev) &&
      !atomic_exchange(&said, true)) {
    shard_say(SHARD_LOG_ERROR,
              "SHARD_DATASET='%.256s' leads to '%.256s' now, and led to '%.256s' before, which is "
              "not of the dataset any more: change no symbolic link in it while a job runs",
              root->path, now->path, first->path);
  }
}

/*
 * Remember what root fd is, *now, and fill in its canonical path: the one that was seen last, if
 * that is it still; it may change while the directory stays. 0 or -ENOMEM.
 */
static int remember(struct shard_place_root *root, int fd, struct shard_climb_root *now) {
  const struct shard_climb_root *last = atomic_load_explicit(&root->last, memory_order_acquire);
  const struct shard_climb_root *first = NULL;
  if (last && has_path(fd, last->path)) {
    now->path = last->path;
    if (is_same_root(last, now)) {
      return 0;
    }
  }
  struct {
    struct shard_climb_root root;
    char path[];
  } *seen = malloc(sizeof(*seen) + (now->path ? 0 : PATH_MAX));
  if (!seen) {
    return -ENOMEM;
  }
  if (!now->path) {
    ssize_t n = shard_climb_read_path(fd, seen->path, PATH_MAX);
    if (n <= 0 || *seen->path != '/') {
      free(seen);
      return 0; /* no /proc: it is known by its inode */
    }
    void *less = realloc(seen, sizeof(*seen) + (size_t)n + 1);
    seen = less ? less : seen;
    now->path = seen->path;
  }
  seen->root = *now;
  atomic_fetch_add(&changes, 1);
  atomic_store_explicit(&root->last, &seen->root, memory_order_release);
  if (!atomic_compare_exchange_strong(&root->first, &first, &seen->root)) {
    warn_of_move(root, first, now);
  }
  return 0;
}

/* Look where no descriptor is left to open it. */
static int look_plainly(const char *path, struct statx *st, int rc) {
  return shard_climb_stat(AT_FDCWD, path, st) == 0 && S_ISDIR(st->stx_mode) ? 0 : rc;
}

int shard_place_look(struct shard_place_root *root, struct shard_climb_root *now) {
  struct statx st;
  *now = (struct shard_climb_root){0};
  if (*root->path != '/') {
    return -EINVAL; /* it could not be made absolute, so any directory may be of it */
  }
  int fd = shard_climb_open(root->path, &st);
  int rc = fd >= 0 ? 0 : shard_error_is_shortage(fd) ? look_plainly(root->path, &st, fd) : fd;
  if (rc == 0) {
    now->dev = shard_climb_device(&st);
    now->ino = st.stx_ino;
    now->mount = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0;
  } else {
    const struct shard_climb_root *last = atomic_load_explicit(&root->last, memory_order_acquire);
    if (last) {
      *now = *last;
      now->mount = 0; /* it may be anywhere */
    }
  }
  if (fd >= 0) {
    rc = remember(root, fd, now);
    shard_climb_close(fd);
  }
  return rc;
}

/* ---- a directory -------------------------------------------------------- */

/* A directory, and the roots as they are now. */
struct look {
  int fd;
  const struct statx *st;
  struct shard_climb_root *roots;
  size_t count;
  unsigned changes; /* `changes` before the roots were looked at */
  ssize_t length;   /* of its path, or a negative errno */
  char *path;       /* the kernel's, in PATH_MAX bytes */
};

static bool is_missing(int rc) { return rc == -ENOENT || rc == -ENOTDIR; }

/* Look at the root that is i. 0, or a negative errno: the directory is of it, or may be. */
static int look_at(struct look *l, struct shard_place_root *known, size_t i) {
  int rc = shard_place_look(&known[i], &l->roots[i]);
  const char *seen = l->roots[i].path;
  if (rc == 0 || is_missing(rc)) {
    return 0;
  }
  bool may_be = l->length < 0 || *known[i].path != '/' || shard_error_is_shortage(rc) ||
                shard_path_below(l->path, known[i].path) ||
                (seen && shard_path_below(l->path, seen));
  l->roots[i] = (struct shard_climb_root){0};
  return may_be ? rc : 0;
}

/* Whether the kernel's path of the directory leads to it. */
static bool leads_there(const struct look *l) {
  struct statx there;
  if (shard_climb_stat(AT_FDCWD, l->path, &there) == 0 && shard_climb_is_same(&there, l->st)) {
    return true;
  }
  int fd = shard_climb_open(l->path, &there); /* PRoot translates no path of statx(2) */
  if (fd >= 0) {
    shard_climb_close(fd);
  }
  return fd >= 0 && shard_climb_is_same(&there, l->st);
}

/* Whether it was removed: it has no names. */
static bool is_removed(const struct look *l) {
  static const char mark[] = " (deleted)";
  const ssize_t n = sizeof(mark) - 1;
  return l->st->stx_nlink == 0 && l->length > n && strcmp(l->path + l->length - n, mark) == 0;
}

/*
 * The parent of the last directory that this thread has found to be of none by going up. Its other
 * children are of none, too, but for roots and mounts; path, inode and ctime tell that it is the
 * parent still. So a walk of another mount does not go up from each directory.
 */
static _Thread_local struct {
  unsigned roots; /* which they were: `changes` */
  size_t length;  /* 0: there is none */
  struct statx st;
  char path[200];
} outside;

/* Look at the parent of a directory that lies where its siblings lie. The length of its path, or 0:
 * it may lie elsewhere. */
static size_t find_parent(const struct look *l, struct statx *parent) {
  bool alone = l->st->stx_attributes & STATX_ATTR_MOUNT_ROOT;
  for (size_t i = 0; i < l->count; i++) {
    alone |= l->roots[i].ino == l->st->stx_ino && l->roots[i].dev == shard_climb_device(l->st);
  }
  const char *name = alone ? NULL : shard_climb_last_names(l->path, 1);
  size_t length = name ? (size_t)(name - l->path) : 0;
  return length < sizeof(outside.path) && shard_climb_stat(l->fd, "..", parent) == 0 ? length : 0;
}

static bool is_outside(const struct look *l) {
  struct statx now;
  size_t length = find_parent(l, &now);
  const struct statx *st = &outside.st;
  return length > 0 && length == outside.length && memcmp(outside.path, l->path, length) == 0 &&
         outside.roots == l->changes && shard_climb_is_same(st, &now) &&
         st->stx_mnt_id == now.stx_mnt_id && st->stx_ctime.tv_sec == now.stx_ctime.tv_sec &&
         st->stx_ctime.tv_nsec == now.stx_ctime.tv_nsec;
}

/*
 * Whether a directory that lies below no root's path is of none for sure: in one mount a directory
 * has one path. Not if a directory above was renamed between the looks.
 */
static bool is_apart(const struct look *l) {
  bool known = l->length > 0 && (l->st->stx_mask & STATX_MNT_ID), there = false, one = true;
  for (size_t i = 0; i < l->count; i++) {
    const struct shard_climb_root *root = &l->roots[i];
    there |= root->ino != 0;
    known &= root->ino == 0 || root->path;
    one &= root->ino == 0 || root->mount == l->st->stx_mnt_id;
  }
  return !there || (known && (one ? has_path(l->fd, l->path) : is_outside(l)));
}

/* Go up from the directory. As shard_place_find(), and *rest is the path, a part of l->path. */
static int go_up(const struct look *l, bool below, size_t *which, const char **rest) {
  struct shard_climb climb;
  int rc = shard_climb_find(l->fd, l->st, l->roots, l->count, &climb);
  if (rc == 0 && (below || (l->length > 0 && !leads_there(l)))) {
    return -ESTALE;
  }
  if (rc == 0 && l->length > 0 && (outside.length = find_parent(l, &outside.st)) > 0) {
    outside.roots = l->changes;
    memcpy(outside.path, l->path, outside.length);
  }
  if (rc > 0) {
    *rest =
        l->length > 0 || climb.levels == 0 ? shard_climb_last_names(l->path, climb.levels) : NULL;
    rc = *rest ? 1 : l->length < 0 ? (int)l->length : -ESTALE;
    *which = rc > 0 || rc == -ENAMETOOLONG ? climb.which : l->count;
  }
  return rc;
}

/* As shard_place_find(), once the roots have been looked at. */
static int find_root(const struct look *l, size_t *which, const char **rest) {
  bool below = false;
  for (size_t i = 0; i < l->count && !below; i++) {
    const char *top = l->length > 0 ? l->roots[i].path : NULL;
    *rest = top ? shard_path_below(l->path, top) : NULL;
    below = *rest != NULL;
    *which = below ? i : *which;
  }
  if (below && leads_there(l)) {
    return 1;
  }
  *which = l->count;
  return is_removed(l) || (!below && is_apart(l)) ? 0 : go_up(l, below, which, rest);
}

/* A root that `which` lies in, or that lies in it; or `count`. */
static size_t find_nested(const struct look *l, const struct shard_place_root *known,
                          size_t which) {
  const char *own = l->roots[which].path ? l->roots[which].path : known[which].path;
  for (size_t i = 0; i < l->count; i++) {
    const char *other = l->roots[i].path ? l->roots[i].path : known[i].path;
    if (i != which && (shard_path_below(own, other) || shard_path_below(other, own))) {
      return i;
    }
  }
  return l->count;
}

static int find_once(struct look *l, struct shard_place_root *known, struct shard_place *out) {
  const char *rest = NULL;
  *out = (struct shard_place){.which = l->count, .other = l->count};
  l->changes = atomic_load(&changes);
  l->path[0] = 0;
  l->length = shard_climb_read_path(l->fd, l->path, PATH_MAX);
  l->length = l->length > 0 && *l->path != '/' ? -ENOENT : l->length;
  for (size_t i = 0; i < l->count; i++) {
    int rc = look_at(l, known, i);
    if (rc != 0) {
      out->which = i;
      return rc;
    }
  }
  int rc = l->st->stx_mask != 0 ? find_root(l, &out->which, &rest) : -EIO;
  if (rc > 0 && (out->other = find_nested(l, known, out->which)) < l->count) {
    return -EINVAL;
  }
  out->path = rc > 0 ? strdup(rest) : NULL;
  return rc > 0 && !out->path ? -ENOMEM : rc;
}

__attribute__((noinline)) int shard_place_find(int fd, const struct statx *st,
                                               struct shard_place_root *known, size_t count,
                                               struct shard_place *out) {
  SHARD_WORKSPACE_HELD(room);
  char *room = shard_workspace_take(&room_held, PATH_MAX + count * sizeof(struct shard_climb_root));
  struct look l;
  int rc = room ? -ESTALE : -ENOMEM;
  l.fd = fd;
  l.st = st;
  l.roots = (void *)(room + PATH_MAX);
  l.count = count;
  l.path = room;
  out->which = count;
  for (int tries = 0; tries < MOST_TRIES && rc < 0 && rc != -EBADF && out->which == count &&
                      !shard_error_is_shortage(rc);
       tries++) {
    rc = find_once(&l, known, out);
  }
  return rc;
}
