/* SPDX-License-Identifier: MIT */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

#define PART 2048

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
    int next = openat(fd, part, flags | O_DIRECTORY | O_CLOEXEC);
    shard_file_close(fd);
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
  int rc = fd < 0 ? -1 : fstat(fd, st);
  shard_file_close(fd);
  return rc;
}
