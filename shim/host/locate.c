/* SPDX-License-Identifier: MIT */
#include "host/locate.h"

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

#define MOST_TRIES 3 /* while directories are renamed */

/* ---- a root ------------------------------------------------------------- */

static atomic_uint changes; /* how often a root has led to another directory than before */

static bool is_same_root(const struct shard_inode_root *a, const struct shard_inode_root *b) {
  return a->ino == b->ino && a->dev == b->dev && a->mount == b->mount;
}

/* Returns whether the kernel's path of fd is `path`. */
static bool has_path(int fd, const char *path) {
  size_t room = strlen(path) + 2;
  SHARD_WORKSPACE_OF(now, room);
  return now && shard_inode_path(fd, now, room) == (ssize_t)room - 2 &&
         memcmp(now, path, room - 2) == 0;
}

/* Prints a line, once, if a root leads to another directory than at first. */
static void warn_of_move(const struct shard_dataset_root *root,
                         const struct shard_inode_root *first, const struct shard_inode_root *now) {
  static atomic_bool reported;
  if (strcmp(first->path, now->path) != 0 && (first->ino != now->ino || first->dev != now->dev) &&
      !atomic_exchange(&reported, true)) {
    shard_say(
        SHARD_LOG_ERROR,
        "SHARD_DATASET='%.256s' leads to '%.256s' now, and led to '%.256s' before, which does "
        "not belong to the dataset any more: do not change its symbolic links while a job runs",
        root->path, now->path, first->path);
  }
}

/*
 * Saves *now, the directory fd that a root leads to, and fills in its canonical path: the saved
 * path if the kernel's path of fd is still the same. The path may change while the directory stays.
 */
static int save_root(struct shard_dataset_root *root, int fd, struct shard_inode_root *now) {
  const struct shard_inode_root *last = atomic_load_explicit(&root->last, memory_order_acquire);
  const struct shard_inode_root *first = NULL;
  if (last && has_path(fd, last->path)) {
    now->path = last->path;
    if (is_same_root(last, now)) {
      return 0;
    }
  }
  struct {
    struct shard_inode_root root;
    char path[];
  } *seen = malloc(sizeof(*seen) + (now->path ? 0 : PATH_MAX));
  if (!seen) {
    return -ENOMEM;
  }
  if (!now->path) {
    ssize_t n = shard_inode_path(fd, seen->path, PATH_MAX);
    if (n <= 0 || *seen->path != '/') {
      free(seen);
      return 0; /* without /proc, the root is known by its inode */
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

/* Examines a root without a descriptor, because none is left. rc: the error of the open. */
static int stat_root(const char *path, struct statx *st, int rc) {
  return shard_inode_stat(AT_FDCWD, path, st) == 0 && S_ISDIR(st->stx_mode) ? 0 : rc;
}

int shard_locate_root(struct shard_dataset_root *root, struct shard_inode_root *now) {
  struct statx st;
  *now = (struct shard_inode_root){0};
  if (*root->path != '/') {
    return -EINVAL; /* not made absolute, so any directory may belong to the root */
  }
  int fd = shard_inode_open_directory(root->path, &st);
  int rc = fd >= 0 ? 0 : shard_error_is_shortage(fd) ? stat_root(root->path, &st, fd) : fd;
  if (rc == 0) {
    now->dev = shard_inode_device(&st);
    now->ino = st.stx_ino;
    now->mount = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0;
  } else {
    const struct shard_inode_root *last = atomic_load_explicit(&root->last, memory_order_acquire);
    if (last) {
      *now = *last;
      now->mount = 0; /* the directory may be mounted elsewhere by now */
    }
  }
  if (fd >= 0) {
    rc = save_root(root, fd, now);
    shard_inode_close(fd);
  }
  return rc;
}

/* ---- a directory -------------------------------------------------------- */

/* A directory, and what the roots lead to now. */
struct lookup {
  int fd;
  const struct statx *st;
  struct shard_inode_root *roots;
  size_t count;
  unsigned changes; /* the counter `changes` before the roots were examined */
  ssize_t length;   /* of path, or a negative errno */
  char *path;       /* the kernel's path of fd, in PATH_MAX bytes */
};

static bool is_missing(int rc) { return rc == -ENOENT || rc == -ENOTDIR; }

/* Finds what root i leads to. Errors: unknown, and the directory may belong to the root. */
static int read_root(struct lookup *l, struct shard_dataset_root *known, size_t i) {
  const struct shard_inode_root *first =
      known[i].fixed ? atomic_load_explicit(&known[i].first, memory_order_acquire) : NULL;
  if (first) {
    l->roots[i] = *first;
    return 0;
  }
  int rc = shard_locate_root(&known[i], &l->roots[i]);
  const char *seen = l->roots[i].path;
  if (rc == 0 || is_missing(rc)) {
    return 0;
  }
  bool may_be = l->length < 0 || *known[i].path != '/' || shard_error_is_shortage(rc) ||
                shard_path_below(l->path, known[i].path) ||
                (seen && shard_path_below(l->path, seen));
  l->roots[i] = (struct shard_inode_root){0};
  return may_be ? rc : 0;
}

/* Returns whether the kernel's path of the directory leads to the directory. */
static bool leads_there(const struct lookup *l) {
  struct statx there;
  if (shard_inode_stat(AT_FDCWD, l->path, &there) == 0 && shard_inode_is_same(&there, l->st)) {
    return true;
  }
  int fd =
      shard_inode_open_directory(l->path, &there); /* PRoot does not translate statx(2)'s path */
  if (fd >= 0) {
    shard_inode_close(fd);
  }
  return fd >= 0 && shard_inode_is_same(&there, l->st);
}

/* Returns whether the directory was removed. */
static bool is_deleted(const struct lookup *l) {
  static const char suffix[] = " (deleted)";
  const ssize_t n = sizeof(suffix) - 1;
  return l->st->stx_nlink == 0 && l->length > n && strcmp(l->path + l->length - n, suffix) == 0;
}

/*
 * The parent of the last directory that this thread has found outside all roots by its ancestors.
 * The parent's other children are outside, too, but for roots and mounts. Path, inode and ctime
 * tell whether a directory still is that parent. So a walk through another mount does not search
 * the ancestors of each directory.
 */
static _Thread_local struct {
  unsigned roots; /* the counter `changes` at that time */
  size_t length;  /* of path; 0: no directory yet */
  struct statx st;
  char path[200];
} last_outside;

/* Stats the parent of a directory that is no root and no mount. Returns the length of the parent's
 * path; 0 if the directory may lie elsewhere than its siblings. */
static size_t find_parent(const struct lookup *l, struct statx *parent) {
  bool alone = l->st->stx_attributes & STATX_ATTR_MOUNT_ROOT;
  for (size_t i = 0; i < l->count; i++) {
    alone |= l->roots[i].ino == l->st->stx_ino && l->roots[i].dev == shard_inode_device(l->st);
  }
  const char *name = alone ? NULL : shard_path_last_names(l->path, 1);
  size_t length = name ? (size_t)(name - l->path) : 0;
  return length < sizeof(last_outside.path) && shard_inode_stat(l->fd, "..", parent) == 0 ? length
                                                                                          : 0;
}

/* Returns whether the directory is a sibling of the last directory outside. */
static bool is_beside_last_outside(const struct lookup *l) {
  struct statx now;
  size_t length = find_parent(l, &now);
  const struct statx *st = &last_outside.st;
  return length > 0 && length == last_outside.length &&
         memcmp(last_outside.path, l->path, length) == 0 && last_outside.roots == l->changes &&
         shard_inode_is_same(st, &now) && st->stx_mnt_id == now.stx_mnt_id &&
         st->stx_ctime.tv_sec == now.stx_ctime.tv_sec &&
         st->stx_ctime.tv_nsec == now.stx_ctime.tv_nsec;
}

/*
 * Returns whether a directory that lies below no root's path is surely outside all roots: within a
 * mount a directory has one path. Not sure if a directory above was renamed meanwhile.
 */
static bool is_surely_outside(const struct lookup *l) {
  bool known = l->length > 0 && (l->st->stx_mask & STATX_MNT_ID), there = false, one = true;
  for (size_t i = 0; i < l->count; i++) {
    const struct shard_inode_root *root = &l->roots[i];
    there |= root->ino != 0;
    known &= root->ino == 0 || root->path;
    one &= root->ino == 0 || root->mount == l->st->stx_mnt_id;
  }
  return !there || (known && (one ? has_path(l->fd, l->path) : is_beside_last_outside(l)));
}

/* Searches the directory's ancestors. Returns as shard_locate_directory(); *rest: the path from the
 * root, a part of l->path. */
static int search_upward(const struct lookup *l, bool below, size_t *which, const char **rest) {
  struct shard_inode_ancestor climb;
  int rc = shard_inode_find_ancestor(l->fd, l->st, l->roots, l->count, &climb);
  if (rc == 0 && (below || (l->length > 0 && !leads_there(l)))) {
    return -ESTALE;
  }
  if (rc == 0 && l->length > 0 && (last_outside.length = find_parent(l, &last_outside.st)) > 0) {
    last_outside.roots = l->changes;
    memcpy(last_outside.path, l->path, last_outside.length);
  }
  if (rc > 0) {
    *rest =
        l->length > 0 || climb.levels == 0 ? shard_path_last_names(l->path, climb.levels) : NULL;
    rc = *rest ? 1 : l->length < 0 ? (int)l->length : -ESTALE;
    *which = rc > 0 || rc == -ENAMETOOLONG ? climb.which : l->count;
  }
  return rc;
}

/* Does shard_locate_directory()'s work after the roots were examined; *rest as above. */
static int find_root_above(const struct lookup *l, size_t *which, const char **rest) {
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
  return is_deleted(l) || (!below && is_surely_outside(l)) ? 0
                                                           : search_upward(l, below, which, rest);
}

/* Returns a root that lies in root `which`, or that `which` lies in; l->count if there is none. */
static size_t find_nested(const struct lookup *l, const struct shard_dataset_root *known,
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

static int locate_once(struct lookup *l, struct shard_dataset_root *known,
                       struct shard_location *out, char *path) {
  const char *rest = NULL;
  *out = (struct shard_location){.which = l->count, .other = l->count};
  l->changes = atomic_load(&changes);
  l->path[0] = 0;
  l->length = shard_inode_path(l->fd, l->path, PATH_MAX);
  l->length = l->length > 0 && *l->path != '/' ? -ENOENT : l->length;
  for (size_t i = 0; i < l->count; i++) {
    int rc = read_root(l, known, i);
    if (rc != 0) {
      out->which = i;
      return rc;
    }
  }
  int rc = l->st->stx_mask != 0 ? find_root_above(l, &out->which, &rest) : -EIO;
  if (rc > 0 && (out->other = find_nested(l, known, out->which)) < l->count) {
    return -EINVAL;
  }
  if (rc > 0) {
    strcpy(path, rest);
  }
  return rc;
}

__attribute__((noinline)) int shard_locate_directory(int fd, const struct statx *st,
                                                     struct shard_dataset_root *known, size_t count,
                                                     struct shard_location *out, char *path) {
  SHARD_WORKSPACE_HELD(room);
  char *room = shard_workspace_take(&room_held, PATH_MAX + count * sizeof(struct shard_inode_root));
  struct lookup l;
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
    rc = locate_once(&l, known, out, path);
  }
  return rc;
}
