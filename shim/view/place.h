/* SPDX-License-Identifier: MIT */
/*
 * place.h - whether a directory lies below a root, and by which path, whatever way it was reached.
 */
#ifndef SHARD_PLACE_H
#define SHARD_PLACE_H

#include <stddef.h>
#include <stdint.h>

struct statx;

/* What shard_place_find() must know about fd, and its mtime. 0 or a negative errno. */
int shard_place_look(int fd, struct statx *out);

/*
 * Find the innermost of the roots (paths[count]) that fd, a directory, is or lies below. 1: *which
 * is the root, *path (malloc'd) leads from it to fd, "" for the root itself. 0: none. Negative
 * errno: that cannot be told. Known by device and inode on the way up through "..", and where a
 * part of the root's tree is mounted elsewhere (mount --bind), by the kernel's list of mounts.
 * Takes descriptors only for directories more than 257 levels deep, for paths longer than
 * PATH_MAX, and to read mountinfo.
 */
int shard_place_find(int fd, const struct statx *st, const char *const *paths, size_t count,
                     size_t *which, char **path);

#endif
