/* SPDX-License-Identifier: MIT */
/*
 * climb.h - from a directory up to a dataset's root, whatever way the directory was reached.
 *
 * Directories are compared by device and inode, level by level through "..". Where a part of a
 * root's tree is mounted elsewhere (mount --bind), the way up never meets the root: then the
 * kernel's list of mounts tells which part of the root it is. Where the way up is barred, the
 * kernel's names of the directory and of the roots tell (shard_climb_find_unseen).
 *
 * What cannot be told is a negative errno, never "it is of none".
 *
 * Nothing is allocated or locked, and no wrapper of ours or cancellation point is called: all of it
 * may be done in a signal handler, and between vfork and exec. A descriptor is taken, and closed
 * again, for a directory more than 257 levels deep and to read the list of mounts. At most 6 KB of
 * stack. errno may change.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* A directory to be found, as it was last seen. The path is the caller's. */
struct shard_climb_root {
  const char *path;
  uint64_t dev, ino; /* dev: shard_climb_device(); ino 0: it was not there */
  uint64_t mount;    /* id of the mount it lies in; 0: not known yet */
  int64_t born;      /* ns; 0: not known. An inode's number is used again, its birth is not */
};

#define SHARD_CLIMB_MOUNTS 16

/* What was met on the way up. */
struct shard_climb {
  size_t which;  /* the root that was found, */
  size_t levels; /* so many levels up: 0 is the directory itself */
  /* Mounts may have been passed unseen: statx(2) is forbidden, or Linux is older than 5.8. */
  bool blind;
  /* The mounts that were passed. Each may be a part of some root's tree, mounted elsewhere. */
  size_t mount_count;
  struct shard_climb_mount {
    uint64_t dev, ino, id; /* dev and ino 0: not known */
    size_t levels;
  } mounts[SHARD_CLIMB_MOUNTS];
};

/* A device as one number; in this order it is one load. */
static inline uint64_t shard_climb_device(const struct statx *st) {
  return (uint64_t)st->stx_dev_minor << 32 | st->stx_dev_major;
}

/* When it was made, ns; 0: that is not known. */
static inline int64_t shard_climb_birth(const struct statx *st) {
  return st->stx_mask & STATX_BTIME ? st->stx_btime.tv_sec * 1000000000LL + st->stx_btime.tv_nsec
                                    : 0;
}

/* shard_climb_stat() where statx(2) does not answer: without the mount. 0 or a negative errno. */
int shard_climb_stat_plainly(int at, const char *path, struct statx *out);

/*
 * Type, inode, mount, mtime and ctime of `path` from `at` ("": of `at`). 0 or a negative errno.
 * stx_mask tells whether the mount is known.
 */
static inline int shard_climb_stat(int at, const char *path, struct statx *out) {
  int rc =
      statx(at, path, AT_NO_AUTOMOUNT | AT_EMPTY_PATH,
            STATX_TYPE | STATX_INO | STATX_MTIME | STATX_CTIME | STATX_BTIME | STATX_MNT_ID, out);
  if (rc == 0 || errno == ENOENT || errno == EBADF) {
    return rc ? -errno : 0;
  }
  return shard_climb_stat_plainly(at, path, out);
}

static inline bool shard_climb_is_same(const struct statx *a, const struct statx *b) {
  return a->stx_ino == b->stx_ino && shard_climb_device(a) == shard_climb_device(b);
}

/* Whether the directory is the root as it was last seen. */
static inline bool shard_climb_is_root(const struct shard_climb_root *root,
                                       const struct statx *st) {
  int64_t born = root->born;
  return root->ino == st->stx_ino && root->dev == shard_climb_device(st) &&
         (born == 0 || !(st->stx_mask & STATX_BTIME) || born == shard_climb_birth(st));
}

/*
 * Look at what root->path is now. 1; else the root stays as it was: 0 if there is nothing, or a
 * negative errno, -ENOTDIR for what is no directory.
 */
static inline int shard_climb_look(struct shard_climb_root *root) {
  struct statx st;
  int rc = shard_climb_stat(AT_FDCWD, root->path, &st);
  if (rc != 0 || !S_ISDIR(st.stx_mode)) {
    return rc == -ENOENT ? 0 : rc ? rc : -ENOTDIR;
  }
  root->dev = shard_climb_device(&st);
  root->ino = st.stx_ino;
  root->mount = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0;
  root->born = shard_climb_birth(&st);
  return 1;
}

/*
 * Go up from directory fd, of which *st is known, until one of the roots is met; of equal ones the
 * first is taken. 1: *out tells which. 0: there is none. A negative errno: the way up is barred.
 * The mounts that were met are in *out. If it is blind, or the way barred,
 * shard_climb_find_unseen() tells more.
 */
int shard_climb_find(int fd, const struct statx *st, const struct shard_climb_root *roots,
                     size_t count, struct shard_climb *out);

/*
 * Go on where shard_climb_find(), which returned rc, could not tell. If the way up is barred,
 * compare the kernel's paths of fd, of which *st is known, and of the roots; then note the mounts
 * that fd lies in, from the kernel's list. Uses room[2 * PATH_MAX]. 1 or 0 as above; a negative
 * errno: it cannot be told.
 */
int shard_climb_find_unseen(int fd, const struct statx *st, const struct shard_climb_root *roots,
                            size_t count, struct shard_climb *climb, int rc, char *room);

/*
 * Whether one of the mounts that were passed, the lowest first, is a part of a root's tree; of
 * nested roots the innermost counts. Look at the roots before. 1: `which` is that root, `levels`
 * leads to the mount, and buf has the path from the root to the mounted part. 0: none is. A
 * negative errno: it cannot be told.
 */
int shard_climb_find_mounted(struct shard_climb *climb, const struct shard_climb_root *roots,
                             size_t count, char buf[PATH_MAX]);

/* The kernel's path of fd in buf[size], by /proc/self/fd. Its length without the NUL, or a negative
 * errno; -ENAMETOOLONG: it has no room. */
ssize_t shard_climb_read_path(int fd, char *buf, size_t size);

/*
 * The last `levels` names of fd's path in buf[size], joined by slashes. As shard_climb_read_path();
 * -ERANGE: the path has fewer.
 */
ssize_t shard_climb_read_names(int fd, size_t levels, char *buf, size_t size);
