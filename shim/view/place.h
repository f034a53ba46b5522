/* SPDX-License-Identifier: MIT */
/* place.h - of which root's tree a directory is, and by which path, whatever way it was reached. */
#ifndef SHARD_VIEW_PLACE_H
#define SHARD_VIEW_PLACE_H

#include <stddef.h>

#include "host/climb.h"

/*
 * Find the innermost of the roots that directory fd is, or lies below; *st is what
 * shard_climb_stat() says of fd. 1: *which is the root, *path (malloc'd) leads from it to fd, ""
 * for the root itself. 0: none. Negative errno: that cannot be told; *which is the root that cannot
 * be looked at, or `count`.
 *
 * A root is what its path leads to now, for it may be made or mounted later; or what known[] says,
 * if that path leads to no directory any more. Thread-safe. Takes descriptors only for directories
 * more than 257 levels deep, for paths longer than PATH_MAX, to read the list of mounts, and where
 * the way up is barred.
 */
int shard_place_find(int fd, const struct statx *st, const struct shard_climb_root *known,
                     size_t count, size_t *which, char **path);

#endif
