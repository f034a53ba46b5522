/* SPDX-License-Identifier: MIT */
#include "host/climb.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/kernel.h"

__attribute__((noinline)) int shard_climb_stat_plainly(int at, const char *path,
                                                       struct statx *out) {
  struct stat st;
  if ((*path ? shard_kernel_stat(at, path, &st, AT_NO_AUTOMOUNT) : shard_kernel_fstat(at, &st)) !=
      0) {
    return -errno;
  }
  *out = (struct statx){.stx_mask = STATX_TYPE | STATX_NLINK | STATX_INO | STATX_CTIME,
                        .stx_mode = (uint16_t)st.st_mode,
                        .stx_nlink = (uint32_t)st.st_nlink,
                        .stx_ino = st.st_ino,
                        .stx_dev_major = major(st.st_dev),
                        .stx_dev_minor = minor(st.st_dev)};
  out->stx_ctime.tv_sec = st.st_ctim.tv_sec;
  out->stx_ctime.tv_nsec = (uint32_t)st.st_ctim.tv_nsec;
  return 0;
}

/* The first open() of the process. It may be our wrapper, which notes nothing of our own calls. */
static typeof(&open) find_open(void) {
  static _Atomic(typeof(&open)) kept;
  typeof(&open) found = atomic_load_explicit(&kept, memory_order_relaxed);
  if (!found) {
    *(void **)&found = dlsym(RTLD_DEFAULT, "open");
    atomic_store_explicit(&kept, found, memory_order_relaxed);
  }
  return found;
}

int shard_climb_open(const char *path, struct statx *st) {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  int fd = find_open()(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int rc = fd < 0 ? -errno : shard_climb_stat(fd, "", st);
  if (fd >= 0 && rc != 0) {
    close(fd);
  }
  pthread_setcancelstate(before, NULL);
  return rc != 0 ? rc : fd;
}

int shard_climb_file(const char *path, int flags) { return find_open()(path, flags | O_CLOEXEC); }

void shard_climb_close(int fd) {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  close(fd);
  pthread_setcancelstate(before, NULL);
}

/* ---- up ----------------------------------------------------------------- */

/* The last 3n bytes, with the NUL, lead n levels up; past that a descriptor is taken. */
#define FOUR_TIMES(s) s s s s
static const char up[] = FOUR_TIMES(FOUR_TIMES(FOUR_TIMES(FOUR_TIMES("../")))) "..";

/* The first of the roots that is this directory, or -1. */
static ssize_t find_equal(const struct shard_climb_root *roots, size_t count,
                          const struct statx *st) {
  for (size_t i = 0; i < count; i++) {
    if (roots[i].ino == st->stx_ino && roots[i].dev == shard_climb_device(st)) {
      return (ssize_t)i;
    }
  }
  return -1;
}

int shard_climb_find(int fd, const struct statx *st, const struct shard_climb_root *roots,
                     size_t count, struct shard_climb *out) {
  size_t n = 0;              /* levels above `at` */
  uint64_t ino = 0, dev = 0; /* of the level below */
  struct statx upper;
  int at = fd, rc = 0;
  for (out->levels = 0;; out->levels++, n++) {
    if (out->levels > 0) {
      rc = shard_climb_stat(at, up + sizeof(up) - 3 * n, &upper);
      if (rc != 0 || (upper.stx_ino == ino && shard_climb_device(&upper) == dev)) {
        break; /* the top is its own parent */
      }
      st = &upper;
    }
    ino = st->stx_ino;
    dev = shard_climb_device(st);
    ssize_t found = find_equal(roots, count, st);
    if (found >= 0) {
      out->which = (size_t)found;
      rc = 1;
      break;
    }
    if (n == sizeof(up) / 3) {
      int next = shard_kernel_open(at, up, O_PATH | O_DIRECTORY);
      rc = next < 0 ? -errno : 0;
      if (at != fd) {
        shard_kernel_close(at);
      }
      at = next;
      n = 0;
      if (rc != 0) {
        break;
      }
    }
  }
  if (at != fd) {
    shard_kernel_close(at);
  }
  return rc;
}

ssize_t shard_climb_read_path(int fd, char *buf, size_t size) {
  char link[40] = "/proc/self/fd/", digits[12];
  size_t n = 0, used = strlen("/proc/self/fd/");
  unsigned rest = (unsigned)fd;
  do { /* not by snprintf: it is called for every directory that is listed */
    digits[n++] = (char)('0' + rest % 10);
  } while ((rest /= 10) > 0);
  while (n > 0) {
    link[used++] = digits[--n];
  }
  ssize_t length = readlink(link, buf, size);
  if (length < 0) {
    return -errno;
  }
  if ((size_t)length >= size) {
    return -ENAMETOOLONG;
  }
  buf[length] = 0;
  return length;
}

const char *shard_climb_last_names(const char *path, size_t levels) {
  const char *begin = path + strlen(path);
  if (levels == 0) {
    return begin;
  }
  for (; levels > 0 && begin; levels--) {
    begin = memrchr(path, '/', (size_t)(begin - path));
  }
  return begin ? begin + 1 : NULL;
}
