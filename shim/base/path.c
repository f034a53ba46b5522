/* SPDX-License-Identifier: MIT */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/kernel.h"
#include "base/workspace.h"

#define PART 2048

int shard_path_open(int root, const char *path, int flags) {
  SHARD_WORKSPACE(part);
  if (!part) {
    errno = ENOMEM;
    return -1;
  }
  path = *path ? path : ".";
  for (int from = root, fd;; from = fd) {
    size_t n = strlen(path);
    if (n > PART) {
      for (n = PART; n > 0 && path[n] != '/'; n--) {
      }
    }
    memcpy(part, path, n);
    part[n] = 0;
    path += n + (path[n] == '/');
    /* Only the last part is opened for reading: on a network file system that takes milliseconds.
     */
    fd = shard_kernel_open(from, part, (*path ? O_PATH : flags) | O_DIRECTORY);
    if (from != root) {
      shard_file_close(from);
    }
    if (fd < 0 || !*path) {
      return fd;
    }
  }
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

const char *shard_path_last_names(const char *path, size_t levels) {
  const char *begin = path + strlen(path);
  if (levels == 0) {
    return begin;
  }
  for (; levels > 0 && begin; levels--) {
    begin = memrchr(path, '/', (size_t)(begin - path));
  }
  return begin ? begin + 1 : NULL;
}
