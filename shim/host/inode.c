/* SPDX-License-Identifier: MIT */
#include "host/inode.h"

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

__attribute__((noinline)) int shard_inode_stat_fallback(int at, const char *path,
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

/* Returns the first open() of the process, perhaps libshard's wrapper, which does not count
 * libshard's own calls. */
static typeof(&open) find_open(void) {
  static _Atomic(typeof(&open)) kept;
  typeof(&open) found = atomic_load_explicit(&kept, memory_order_relaxed);
  if (!found) {
    *(void **)&found = dlsym(RTLD_DEFAULT, "open");
    atomic_store_explicit(&kept, found, memory_order_relaxed);
  }
  return found;
}

int shard_inode_open_directory(const char *path, struct statx *st) {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  int fd = find_open()(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int rc = fd < 0 ? -errno : shard_inode_stat(fd, "", st);
  if (fd >= 0 && rc != 0) {
    close(fd);
  }
  pthread_setcancelstate(before, NULL);
  return rc != 0 ? rc : fd;
}

int shard_inode_open_file(const char *path, int flags) {
  return find_open()(path, flags | O_CLOEXEC);
}

void shard_inode_close(int fd) {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  close(fd);
  pthread_setcancelstate(before, NULL);
}

/* ---- up ----------------------------------------------------------------- */

/* The last 3n bytes, with the NUL, are a path n levels up. For more levels a descriptor is taken.
 */
#define FOUR_TIMES(s) s s s s
static const char up[] = FOUR_TIMES(FOUR_TIMES(FOUR_TIMES(FOUR_TIMES("../")))) "..";

/* Returns the first root that is this directory; -1 if there is none. */
static ssize_t find_equal(const struct shard_inode_root *roots, size_t count,
                          const struct statx *st) {
  for (size_t i = 0; i < count; i++) {
    if (roots[i].ino == st->stx_ino && roots[i].dev == shard_inode_device(st)) {
      return (ssize_t)i;
    }
  }
  return -1;
}

int shard_inode_find_ancestor(int fd, const struct statx *st, const struct shard_inode_root *roots,
                              size_t count, struct shard_inode_ancestor *out) {
  size_t n = 0;              /* levels above `at` */
  uint64_t ino = 0, dev = 0; /* of the directory one level below */
  struct statx upper;
  int at = fd, rc = 0;
  for (out->levels = 0;; out->levels++, n++) {
    if (out->levels > 0) {
      rc = shard_inode_stat(at, up + sizeof(up) - 3 * n, &upper);
      if (rc != 0 || (upper.stx_ino == ino && shard_inode_device(&upper) == dev)) {
        break; /* "/" is its own parent */
      }
      st = &upper;
    }
    ino = st->stx_ino;
    dev = shard_inode_device(st);
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

ssize_t shard_inode_path(int fd, char *buf, size_t size) {
  char link[40] = "/proc/self/fd/", digits[12];
  size_t n = 0, used = strlen("/proc/self/fd/");
  unsigned rest = (unsigned)fd;
  do { /* faster than snprintf(3); called for each directory that is listed */
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
