/* SPDX-License-Identifier: MIT */
/* path.h - paths as texts. */
#ifndef SHARD_PATH_H
#define SHARD_PATH_H

#include <string.h>

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

#endif
