/* SPDX-License-Identifier: MIT */
/*
 * place.h - whether a directory lies below a root, and by which path, whatever way it was reached.
 */
#ifndef SHARD_VIEW_PLACE_H
#define SHARD_VIEW_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A directory to look for, as it was first seen; ino 0: it was not there. */
struct shard_root {
  const char *path;
  uint64_t dev, ino, mount; /* place.c's */
};

/* What root->path is at this moment; false, and root as it was, if it is no directory. */
bool shard_root_look(struct shard_root *root);

struct statx;

/* What shard_place_find() must know about fd, and its mtime. 0 or a negative errno. */
int shard_place_look(int fd, struct statx *out);

/*
 * Find the innermost of the roots (known[count]) that fd, a directory, is or lies below. 1: *which
 * is the root, *path (malloc'd) leads from it to fd, "" for the root itself. 0: none. Negative
 * errno: that cannot be told. Known by device and inode on the way up through "..", and where a
 * part of the root's tree is mounted elsewhere (mount --bind), by the kernel's list of mounts.
 * A root is what its path leads to now, for it may be mounted later, or what it was at first.
 * Takes descriptors only for directories more than 257 levels deep, for paths longer than
 * PATH_MAX, and to read mountinfo.
 */
int shard_place_find(int fd, const struct statx *st, const struct shard_root *known, size_t count,
                     size_t *which, char **path);

#endif
