/* SPDX-License-Identifier: MIT */
/* place.h - of which root's tree a directory is, and by which path, whatever way it was reached. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/climb.h"

/* What a root's path has led to, the newest first. Nothing is ever freed. */
struct shard_place_seen {
  const struct shard_place_seen *older;
  struct shard_climb_root root;
};

/* A root. seen: NULL until its path leads to a directory. */
struct shard_place_root {
  const char *path;
  _Atomic(const struct shard_place_seen *) seen;
};

/* Look at a root, *now, and remember it. 1; 0: there is none now, *now is what was seen last (ino
 * 0: nothing yet); or a negative errno. */
int shard_place_look(struct shard_place_root *root, struct shard_climb_root *now);

struct shard_place {
  size_t which; /* the root */
  char *path;   /* from there, "" for the root itself; malloc'd */
  /* `path` leads to something else: the directory is a mounted part of the root's tree, whose place
   * there was removed or is under another mount; or the root was replaced by another. */
  bool covered;
};

/*
 * Find the innermost of the roots that directory fd is, or lies below; *st is what
 * shard_climb_stat() says of fd. 1: *out tells. 0: none. Negative errno: that cannot be told;
 * out->which is the root that cannot be looked at, or `count`.
 *
 * A root is what its path leads to now, for it may be made or mounted later. Or it is what the path
 * led to before: a directory that this process has seen there stays the dataset's. Thread-safe.
 * Takes descriptors only for directories more than 257 levels deep, for paths longer than PATH_MAX,
 * to read the list of mounts, and where the way up is barred.
 */
int shard_place_find(int fd, const struct statx *st, struct shard_place_root *known, size_t count,
                     struct shard_place *out);
