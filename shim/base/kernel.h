/* SPDX-License-Identifier: MIT */
/*
 * kernel.h - system calls past libc, because other preloaded libraries change libc's answers: under
 * fakeroot every file seems to belong to this user, under libfaketime a changed file seems
 * unchanged. No function is a cancellation point.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Calls fstatat(2). Returns 0. Errors: -1 and errno. */
static inline int shard_kernel_stat(int at, const char *path, struct stat *st, int flags) {
  return (int)syscall(SYS_newfstatat, at, path, st, flags);
}

/* Calls fstat(2). Returns 0. Errors: -1 and errno. */
static inline int shard_kernel_fstat(int fd, struct stat *st) {
  return (int)syscall(SYS_fstat, fd, st);
}

/*
 * Checks whether the open file fd still has this name in directory `at`.
 * Returns 1; 0 if another file has the name, or none.
 */
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

/*
 * Calls openat(2) with O_CLOEXEC; libshard's own open() would count the call as the program's.
 * Returns a descriptor.
 * Errors: -1 and errno.
 */
static inline int shard_kernel_create(int at, const char *path, int flags, mode_t mode) {
  return (int)syscall(SYS_openat, at, path, flags | O_CLOEXEC, mode);
}

/* Does the same for a file that exists. */
static inline int shard_kernel_open(int at, const char *path, int flags) {
  return shard_kernel_create(at, path, flags, 0);
}

/* Closes fd unless it is negative. Keeps errno. */
static inline void shard_kernel_close(int fd) {
  int saved = errno;
  if (fd >= 0) {
    syscall(SYS_close, fd);
  }
  errno = saved;
}

/* Returns the effective user id. */
static inline uid_t shard_kernel_euid(void) { return (uid_t)syscall(SYS_geteuid); }
