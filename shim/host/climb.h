/* SPDX-License-Identifier: MIT */
/*
 * climb.h - from a directory up to a dataset's root, whatever way the directory was reached; and
 * the kernel's path of a directory.
 *
 * Directories are compared by device and inode, level by level through "..". What cannot be told is
 * a negative errno, never "it is of none".
 *
 * Nothing is allocated or locked, and no cancellation point is called: all of it may be done in a
 * signal handler, and between vfork and exec. errno may change.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* A directory to be found. */
struct shard_climb_root {
  const char *path;  /* the caller's */
  uint64_t dev, ino; /* dev: shard_climb_device(); ino 0: it is not there */
  uint64_t mount;    /* id of the mount it lies in; 0: not known. The caller's, too */
};

/* What was met on the way up. */
struct shard_climb {
  size_t which;  /* the root that was found, */
  size_t levels; /* so many levels up: 0 is the directory itself */
};

/* A device as one number; in this order it is one load. */
static inline uint64_t shard_climb_device(const struct statx *st) {
  return (uint64_t)st->stx_dev_minor << 32 | st->stx_dev_major;
}

/* shard_climb_stat() where statx(2) does not answer: without the mount. 0 or a negative errno. */
int shard_climb_stat_plainly(int at, const char *path, struct statx *out);

/*
 * Type, inode, links, mount and ctime of `path` from `at` ("": of `at`). 0 or a negative errno.
 * stx_mask tells whether the mount is known.
 */
static inline int shard_climb_stat(int at, const char *path, struct statx *out) {
  /* The kernel's: another preloaded library may answer for descriptors that it has made up. */
  long rc = syscall(SYS_statx, at, path, AT_NO_AUTOMOUNT | AT_EMPTY_PATH,
                    STATX_TYPE | STATX_NLINK | STATX_INO | STATX_CTIME | STATX_MNT_ID, out);
  if (rc == 0 || errno == ENOENT || errno == EBADF) {
    return rc ? -errno : 0;
  }
  return shard_climb_stat_plainly(at, path, out);
}

static inline bool shard_climb_is_same(const struct statx *a, const struct statx *b) {
  return a->stx_ino == b->stx_ino && shard_climb_device(a) == shard_climb_device(b);
}

/*
 * Open a directory by the path that the program would use: by its own open(), which another
 * preloaded library (fakechroot) or a tracer (PRoot) may translate; and look at it. Returns a
 * descriptor (O_PATH), for shard_climb_close(), or a negative errno.
 */
int shard_climb_open(const char *path, struct statx *st);

/* As open(2), with O_CLOEXEC, of a file that the user has named, by the program's own open(), too.
 */
int shard_climb_file(const char *path, int flags);

void shard_climb_close(int fd);

/*
 * Go up from directory fd, of which *st is known, until one of the roots is met; of equal ones the
 * first is taken. 1: *out tells which. 0: there is none. A negative errno: the way up is barred.
 * Takes a descriptor, and closes it again, for a directory more than 257 levels deep.
 */
int shard_climb_find(int fd, const struct statx *st, const struct shard_climb_root *roots,
                     size_t count, struct shard_climb *out);

/* The kernel's path of fd in buf[size], by /proc/self/fd. Its length without the NUL, or a negative
 * errno; -ENAMETOOLONG: it has no room. */
ssize_t shard_climb_read_path(int fd, char *buf, size_t size);

/* The last `levels` names of a path: a part of it. NULL: it has fewer. */
const char *shard_climb_last_names(const char *path, size_t levels);
