/* SPDX-License-Identifier: MIT */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PART 2048

#ifndef SYS_openat2
#define SYS_openat2 437 /* Linux 5.6; on all architectures */
#endif
#define NO_LINKS 4 /* RESOLVE_NO_SYMLINKS of linux/openat2.h, which older systems lack */

static int open_part(int fd, const char *part, int flags) {
  const struct {
    uint64_t flags, mode, resolve;
  } how = {.flags = (uint64_t)flags, .resolve = NO_LINKS};
  long next = flags & O_NOFOLLOW ? syscall(SYS_openat2, fd, part, &how, sizeof(how)) : -1;
  /* Without this call, or where a filter forbids it, the last component at least is no link. */
  bool lacks = next < 0 && (!(flags & O_NOFOLLOW) || errno == ENOSYS || errno == EPERM);
  return lacks ? openat(fd, part, flags) : (int)next;
}

int shard_path_open(int root, const char *path, int flags) {
  int fd = openat(root, ".", flags | O_DIRECTORY | O_CLOEXEC);
  while (fd >= 0 && *path) {
    size_t n = strlen(path);
    if (n > PART) {
      for (n = PART; n > 0 && path[n] != '/'; n--) {
      }
    }
    char part[PART + 1];
    memcpy(part, path, n);
    part[n] = 0;
    int next = open_part(fd, part, flags | O_DIRECTORY | O_CLOEXEC);
    int saved = errno;
    close(fd);
    errno = saved;
    fd = next;
    path += n + (path[n] == '/');
  }
  return fd;
}

int shard_path_stat(int root, const char *path, struct stat *st) {
  if (strlen(path) < PATH_MAX) {
    return fstatat(root, *path ? path : ".", st, 0);
  }
  int fd = shard_path_open(root, path, O_PATH);
  int rc = fd < 0 ? -1 : fstat(fd, st), saved = errno;
  if (fd >= 0) {
    close(fd);
  }
  errno = saved;
  return rc;
}
