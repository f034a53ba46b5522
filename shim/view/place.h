/* SPDX-License-Identifier: MIT */
/*
 * place.h - whether a directory lies below a root, and by which path, whatever way it was reached.
 */
#ifndef SHARD_PLACE_H
#define SHARD_PLACE_H

#include <stddef.h>
#include <stdint.h>

/* A directory to look for. */
struct shard_root {
  const char *path;
  uint64_t dev, ino; /* both 0: it is not there */
  uint64_t mount;
};

/* What the roots are at this moment: one may be mounted later. */
void shard_roots_look(struct shard_root *roots, size_t count);

/*
 * Find the innermost root that fd, a directory, is or lies below. 1: *which is the root, *path
 * (malloc'd) leads from it to fd, "" for the root itself. 0: none. Negative errno: that cannot be
 * told. Known by device and inode on the way up through "..", and where a part of the root's tree
 * is mounted elsewhere (mount --bind), by the kernel's list of mounts.
 * Takes descriptors only for directories more than 340 levels deep, for paths longer than
 * PATH_MAX, and to read mountinfo.
 */
int shard_place_find(int fd, const struct shard_root *roots, size_t count, size_t *which,
                     char **path);

#endif
