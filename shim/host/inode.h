/* SPDX-License-Identifier: MIT */
/*
 * inode.h - directories by device and inode, whatever path led to them; the kernel's path of a
 * directory; and opening files as the program would.
 *
 * A question that cannot be answered is a negative errno, never "no". Nothing is allocated or
 * locked, and no function is a cancellation point: signal handlers and vforked children may call
 * them all.
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

/* A directory that ancestors are compared with. */
struct shard_inode_root {
  const char *path;  /* for the caller's use */
  uint64_t dev, ino; /* dev: shard_inode_device(); ino 0: there is no directory */
  uint64_t mount;    /* id of the mount that it lies in, for the caller's use; 0: not known */
};

/* A root that was found among the ancestors. */
struct shard_inode_ancestor {
  size_t which;  /* the root */
  size_t levels; /* how many levels above the directory; 0: the directory itself */
};

/* Returns the device of a file as one number; in this order the two halves are one load. */
static inline uint64_t shard_inode_device(const struct statx *st) {
  return (uint64_t)st->stx_dev_minor << 32 | st->stx_dev_major;
}

/* Does shard_inode_stat()'s work where statx(2) fails; without the mount. */
int shard_inode_stat_fallback(int at, const char *path, struct statx *out);

/*
 * Gets type, inode, links, mount and ctime of `path` below directory `at`; path "": of `at` itself.
 * out->stx_mask tells whether the mount is known.
 */
static inline int shard_inode_stat(int at, const char *path, struct statx *out) {
  /* The kernel's: another preloaded library may answer for descriptors that it has made up. */
  long rc = syscall(SYS_statx, at, path, AT_NO_AUTOMOUNT | AT_EMPTY_PATH,
                    STATX_TYPE | STATX_NLINK | STATX_INO | STATX_CTIME | STATX_MNT_ID, out);
  if (rc == 0 || errno == ENOENT || errno == EBADF) {
    return rc ? -errno : 0;
  }
  return shard_inode_stat_fallback(at, path, out);
}

/* Returns whether two files are the same. */
static inline bool shard_inode_is_same(const struct statx *a, const struct statx *b) {
  return a->stx_ino == b->stx_ino && shard_inode_device(a) == shard_inode_device(b);
}

/*
 * Opens a directory (O_PATH) by the program's own open(), which another preloaded library
 * (fakechroot) or a tracer (PRoot) may give another meaning; and stats it.
 * Returns a descriptor for shard_inode_close().
 */
int shard_inode_open_directory(const char *path, struct statx *st);

/*
 * Opens a file that the user has named, by the program's own open(), with O_CLOEXEC.
 * Returns a descriptor.
 * Errors: -1 and errno.
 */
int shard_inode_open_file(const char *path, int flags);

/* Closes a descriptor of shard_inode_open_directory(). */
void shard_inode_close(int fd);

/*
 * Finds the nearest of roots[count] among directory fd and its ancestors, level by level through
 * "..". If several roots are the same directory, the first of them counts.
 * st: of fd. Takes a descriptor for a moment if fd is more than 257 levels deep.
 * Returns 1 and *out; 0 if no root is above.
 * Errors: a directory above cannot be examined.
 */
int shard_inode_find_ancestor(int fd, const struct statx *st, const struct shard_inode_root *roots,
                              size_t count, struct shard_inode_ancestor *out);

/*
 * Prints the kernel's path of fd, from /proc/self/fd, into buf[size].
 * Returns the length without the NUL.
 * Errors: of readlink(2); -ENAMETOOLONG, buf is too small.
 */
ssize_t shard_inode_path(int fd, char *buf, size_t size);
