/* SPDX-License-Identifier: MIT */
/* path.h - paths as texts, and directories at paths of any length. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Finds the path from directory `top` to `path`. Pure.
 * Returns a part of `path` without a leading slash, "" if the two are equal; NULL if `path` does
 * not lie below `top`.
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
 * Returns whether stat(2) has failed with this errno because nothing is at the path, or because
 * this user may not search a directory above: for this user the path is then no directory. After
 * any other errno the question stays open.
 */
static inline bool shard_path_leads_nowhere(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES ||
         error == ENAMETOOLONG;
}

/*
 * Opens the directory `path`, which may be longer than PATH_MAX.
 * root: the descriptor that `path` is relative to; path "" is root itself.
 * flags: O_RDONLY or O_PATH.
 * Returns a new descriptor with O_CLOEXEC.
 * Errors: -1 and errno, of open(2).
 */
int shard_path_open(int root, const char *path, int flags);

/* Returns the last `levels` names of a path, as a part of it; NULL if it has fewer. Pure. */
const char *shard_path_last_names(const char *path, size_t levels);

/*
 * Reads the stat of `path`, which may be longer than PATH_MAX, and follows links.
 * root: the descriptor that `path` is relative to.
 * Errors: -1 and errno, of fstatat(2).
 */
int shard_path_stat(int root, const char *path, struct stat *st);
