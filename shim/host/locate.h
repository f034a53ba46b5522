/* SPDX-License-Identifier: MIT */
/*
 * locate.h - finds which root of SHARD_DATASET a directory lies below, and the path from the root.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/inode.h"

/*
 * A root of SHARD_DATASET. The directories that it has led to are never freed; their `path` is
 * canonical.
 */
struct shard_dataset_root {
  const char *path; /* as configured, absolute */
  _Atomic(const struct shard_inode_root *) first, last;
  bool fixed; /* the directory that was found first is the root from then on, and is not examined */
};

/*
 * Finds the directory that a root's path leads to now.
 * *now: the directory; if there is none now, the one that was found last (ino 0: never one).
 * now->path: the canonical path; NULL if it cannot be found.
 * Prints a line, once, if the path leads to another directory than at first.
 * Errors: -ENOENT, -ENOTDIR: no directory is there; another negative errno: unknown.
 */
int shard_locate_root(struct shard_dataset_root *root, struct shard_inode_root *now);

/* Where a directory lies. */
struct shard_location {
  size_t which; /* the root */
  size_t other; /* after -EINVAL, the root inside or outside of `which`; else `count` */
};

/*
 * Finds the root that directory fd is, or lies below.
 *
 * The kernel's path of fd is compared with the roots' canonical paths. A match counts if the path
 * leads to the directory. If the path does not tell (another mount, no /proc, a path too long), the
 * directories above are compared with the roots (host/inode.h). A root that cannot be examined is
 * compared by its path alone.
 *
 * st: of shard_inode_stat() for fd; stx_mask 0: that failed.
 * known[count]: the roots; each is looked up anew, but for fixed ones. Takes a descriptor for a
 * moment, if one is left. path[PATH_MAX]: after 1, the path from the root; "" for the root itself.
 * Returns 1 and *out. 0: the directory is of no dataset.
 * Errors: with out->which < count, the directory is of that root and cannot be listed; else it is
 * unknown whether the directory is of a dataset.
 */
int shard_locate_directory(int fd, const struct statx *st, struct shard_dataset_root *known,
                           size_t count, struct shard_location *out, char *path);
