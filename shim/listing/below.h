/* SPDX-License-Identifier: MIT */
/* below.h - directories by paths of any length. */
#ifndef SHARD_BELOW_H
#define SHARD_BELOW_H

#include <sys/stat.h>

/*
 * Open the directory `path`, relative to `root` ("" is root itself), which may be longer than
 * PATH_MAX. flags: O_RDONLY or O_PATH. A new descriptor with O_CLOEXEC, or -1 and errno.
 */
int shard_open_below(int root, const char *path, int flags);

/* fstatat() of such a directory. 0, or -1 and errno. */
int shard_stat_below(int root, const char *path, struct stat *st);

#endif
