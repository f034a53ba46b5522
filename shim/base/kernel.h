/* SPDX-License-Identifier: MIT */
/*
 * kernel.h - what the kernel says of files and users, past the C library. What else is preloaded
 * may say something else there: under fakeroot every file seems to be this user's, under
 * libfaketime a file that changes seems to stay as it was.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* fstatat(2): 0, or -1 and errno. */
static inline int shard_kernel_stat(int at, const char *path, struct stat *st, int flags) {
  return (int)syscall(SYS_newfstatat, at, path, st, flags);
}

/* fstat(2). */
static inline int shard_kernel_fstat(int fd, struct stat *st) {
  return (int)syscall(SYS_fstat, fd, st);
}

/* Whether the file that is open as fd has this name, below directory `at`, to this day. 1; 0:
 * another file has it, or none; or a negative errno. */
static inline int shard_kernel_has_name(int fd, int at, const char *name) {
  struct stat own, named;
  if (shard_kernel_fstat(fd, &own) != 0) {
    return -errno;
  }
  if (shard_kernel_stat(at, name, &named, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
  }
  return own.st_ino == named.st_ino && own.st_dev == named.st_dev;
}

/* openat(2), with O_CLOEXEC: a descriptor, or -1 and errno. No cancellation point, as libc's is,
 * and not libshard's own open(), which notes what a program opens. */
static inline int shard_kernel_make(int at, const char *path, int flags, mode_t mode) {
  return (int)syscall(SYS_openat, at, path, flags | O_CLOEXEC, mode);
}
static inline int shard_kernel_open(int at, const char *path, int flags) {
  return shard_kernel_make(at, path, flags, 0);
}

/* close(2), as above, of what shard_kernel_open() has opened. errno is kept. */
static inline void shard_kernel_close(int fd) {
  int saved = errno;
  if (fd >= 0) {
    syscall(SYS_close, fd);
  }
  errno = saved;
}

/* geteuid(2). */
static inline uid_t shard_kernel_user(void) { return (uid_t)syscall(SYS_geteuid); }
