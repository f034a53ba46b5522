/* SPDX-License-Identifier: MIT */
/*
 * lossy.so: an LD_PRELOAD library for tests: a file system that does not keep what is written, or
 * refuses what others do. LOSSY is what it does with temporaries (PATH.tmp.XXXXXX):
 *
 *   truncate   ftruncate does nothing, and succeeds, as in s3fs
 *   espipe, eopnotsupp, einval, enosys   fallocate and posix_fallocate fail by this error
 *   seek       and writing anywhere but at the end fails by ESPIPE, as in a mount of rclone
 *   cut        close cuts the last 8 bytes
 *   flip       close changes a byte in the middle
 *   header     close changes a byte of the header
 */
#include "real.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool does(const char *what) {
  const char *lossy = getenv("LOSSY");
  return lossy && strcmp(lossy, what) == 0;
}

static bool is_temporary(int fd) {
  char link[40], path[PATH_MAX + 1];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, PATH_MAX);
  path[n > 0 ? n : 0] = 0;
  return strstr(path, ".tmp.") != NULL;
}

static int refusal(int fd) {
  int error = does("espipe") || does("seek") ? ESPIPE
              : does("eopnotsupp")           ? EOPNOTSUPP
              : does("einval")               ? EINVAL
              : does("enosys")               ? ENOSYS
                                             : 0;
  return is_temporary(fd) ? error : 0;
}

EXPORT int fallocate(int fd, int mode, off_t at, off_t size) {
  int error = refusal(fd);
  errno = error ? error : errno;
  return error ? -1 : REAL(fallocate)(fd, mode, at, size);
}

EXPORT int posix_fallocate(int fd, off_t at, off_t size) {
  int error = refusal(fd);
  return error ? error : REAL(posix_fallocate)(fd, at, size);
}

EXPORT int ftruncate(int fd, off_t size) {
  return does("truncate") && is_temporary(fd) ? 0 : REAL(ftruncate)(fd, size);
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  struct stat st;
  if (does("seek") && is_temporary(fd) && fstat(fd, &st) == 0 && at != st.st_size) {
    errno = ESPIPE;
    return -1;
  }
  return REAL(pwrite)(fd, data, size, at);
}

static void change(int fd, off_t at) {
  unsigned char byte = 0;
  if (pread(fd, &byte, 1, at) == 1) {
    byte ^= 1;
    REAL(pwrite)(fd, &byte, 1, at);
  }
}

EXPORT int close(int fd) {
  struct stat st;
  bool ours = getenv("LOSSY") && is_temporary(fd) && fstat(fd, &st) == 0 && st.st_size > 0 &&
              (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
  if (ours && does("cut")) {
    REAL(ftruncate)(fd, st.st_size - 8);
  } else if (ours && (does("flip") || does("header"))) {
    change(fd, does("flip") ? st.st_size * 3 / 4 : 100);
  }
  return REAL(close)(fd);
}
