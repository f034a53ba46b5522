/* SPDX-License-Identifier: MIT */
/* place.h - of which root's tree a directory is, and by which path, whatever way it was reached. */
#ifndef SHARD_VIEW_PLACE_H
#define SHARD_VIEW_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "host/climb.h"

struct shard_place {
  size_t which; /* the root */
  char *path;   /* from there, "" for the root itself; malloc'd */
  /* By a mount of a part of the root's tree, where that path leads to something else: another mount
   * is over it, or it has been removed. */
  bool covered;
};

/*
 * Find the innermost of the roots that directory fd is, or lies below; *st is what
 * shard_climb_stat() says of fd. 1: *out tells. 0: none. Negative errno: that cannot be told;
 * out->which is the root that cannot be looked at, or `count`.
 *
 * A root is what its path leads to now, for it may be made or mounted later; or what known[] says,
 * if that path leads to no directory any more. Thread-safe. Takes descriptors only for directories
 * more than 257 levels deep, for paths longer than PATH_MAX, to read the list of mounts, and where
 * the way up is barred.
 */
int shard_place_find(int fd, const struct statx *st, const struct shard_climb_root *known,
                     size_t count, struct shard_place *out);

#endif
