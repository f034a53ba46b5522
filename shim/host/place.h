/* SPDX-License-Identifier: MIT */
/* place.h - which root's tree a directory is in, and by which path: the only place that tells. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "host/climb.h"

/* A root of SHARD_DATASET. What it has led to is never freed: `root.path` is its canonical path. */
struct shard_place_root {
  const char *path; /* as configured, absolute */
  _Atomic(const struct shard_climb_root *) first, last;
};

/*
 * Look at what a root's path leads to now. 0, -ENOENT, -ENOTDIR, or another negative errno: it
 * cannot be looked at. *now is what was found; if there is nothing, what was seen last (ino 0:
 * nothing yet). now->path is NULL if the canonical path cannot be had.
 */
int shard_place_look(struct shard_place_root *root, struct shard_climb_root *now);

/* Where a directory is. */
struct shard_place {
  size_t which; /* the root */
  size_t
      other;  /* after -EINVAL the root that `which` lies in, or the other way round; or `count` */
  char *path; /* from the root, "" for the root itself; malloc'd */
};

/*
 * Find the root that directory fd is, or lies below; *st is what shard_climb_stat() says of fd
 * (stx_mask 0: nothing). 1: *out tells. 0: there is none. A negative errno: that cannot be told;
 * or, if out->which is less than `count`, the directory is of that root, and cannot be listed.
 *
 * The kernel's path of fd is compared with the roots' canonical paths. It is believed if it leads
 * to the directory. Where it tells nothing (other mounts, no /proc, too long a path), going up from
 * the directory does (host/climb.h). A root that cannot be looked at is known by its path alone.
 *
 * Each root is looked at anew. Takes a descriptor for a moment, if one is left. Thread-safe.
 */
int shard_place_find(int fd, const struct statx *st, struct shard_place_root *known, size_t count,
                     struct shard_place *out);
