/* SPDX-License-Identifier: MIT */
/* path.h - comparing paths, and opening directories by paths of any length. Thread-safe. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/*
 * The path from directory `top` to `path`, without a slash at its beginning; "" if they are the
 * same. NULL if `path` does not lie below `top`. The result is a part of `path`.
 */
static inline const char *shard_path_below(const char *path, const char *top) {
  size_t n = strlen(top);
  while (n > 0 && top[n - 1] == '/') {
    n--;
  }
  if (strncmp(path, top, n) != 0 || (path[n] != '/' && path[n] != 0)) {
    return NULL;
  }
  path += n;
  return path + strspn(path, "/");
}

/*
 * Whether stat(2) has failed with this errno because a name leads nowhere, or where this user may
 * not go: then it is no directory, for anybody. After another errno that is not known.
 */
static inline bool shard_path_leads_nowhere(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES ||
         error == ENAMETOOLONG;
}

/*
 * Open the directory `path`, relative to descriptor `root` ("" is root itself). The path may be
 * longer than PATH_MAX. flags: O_RDONLY or O_PATH. A new descriptor with O_CLOEXEC, or -1 and errno
 * of open(2).
 */
int shard_path_open(int root, const char *path, int flags);

/* fstatat(2) of such a directory; links are followed. 0, or -1 and errno. */
int shard_path_stat(int root, const char *path, struct stat *st);
