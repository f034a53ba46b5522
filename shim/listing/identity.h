/* SPDX-License-Identifier: MIT */
/*
 * identity.h - what tells a directory, with the names that it has, from itself at any other time:
 * struct shard_dir of format.h.
 *
 *   ino, ctime  Whatever changes a directory's names sets its ctime, and no program can put that
 *               back. (The mtime can be: tar, rsync -a and cp -a do.) The walk sees to it that a
 *               later change has another ctime (source/walk.c).
 *   mtime       needs no look of its own; it may tell where a file system's ctime does not.
 *   image       On a read-only image another image may have the same inodes and times. It has a
 *               number of its own if the kernel takes one from its UUID (erofs); of others
 *               (squashfs) nothing tells which image it is.
 *
 * On FUSE a program may make up inodes and times.
 *
 * Thread-safe; errno may change.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "listing/format.h"

#define SHARD_BOOT_SIZE 16

/* What is remembered from one directory to the next; all zeros at first. */
struct shard_identity_eye {
  bool lazily;   /* the caller's: on a network a time of some seconds ago will do */
  bool known;    /* the rest is of `dev` */
  bool invented; /* it is FUSE */
  bool untold;   /* it is an image without a number */
  uint64_t dev, image;
};

/*
 * Look at the directory `path` below descriptor root, "": root itself. The path may be of any
 * length. 0, or -1 and errno.
 */
int shard_identity_look(struct shard_identity_eye *eye, int root, const char *path,
                        struct shard_dir *out);

/* Whether two looks saw the same. */
bool shard_identity_is_equal(const struct shard_dir *a, const struct shard_dir *b);

/* Which boot of which host this is. 1; 0, and zeros, if there is no /proc that tells it; or a
 * negative errno: it cannot be told now. */
int shard_identity_boot(uint8_t boot[SHARD_BOOT_SIZE]);
