/* SPDX-License-Identifier: MIT */
/* path.h - paths as texts, and directories by paths of any length. */
#ifndef SHARD_BASE_PATH_H
#define SHARD_BASE_PATH_H

#include <string.h>
#include <sys/stat.h>

/* What follows `whole` in path, without the slash; NULL if path is neither it nor lies below it. */
static inline const char *shard_path_below(const char *path, const char *whole) {
  size_t n = strlen(whole);
  while (n > 0 && whole[n - 1] == '/') {
    n--;
  }
  if (strncmp(path, whole, n) != 0 || (path[n] != '/' && path[n] != 0)) {
    return NULL;
  }
  path += n;
  return path + strspn(path, "/");
}

/*
 * Open the directory `path`, relative to `root` ("" is root itself), which may be longer than
 * PATH_MAX. flags: O_RDONLY or O_PATH. A new descriptor with O_CLOEXEC, or -1 and errno.
 */
int shard_path_open(int root, const char *path, int flags);

/* fstatat() of such a directory. 0, or -1 and errno. */
int shard_path_stat(int root, const char *path, struct stat *st);

#endif
