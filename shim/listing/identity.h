/* SPDX-License-Identifier: MIT */
/*
 * identity.h - what tells a directory, with the names that it has, from all others, and from itself
 * at any other time: struct shard_dir of format.h.
 *
 *   ino, ctime  Whatever changes a directory's names sets its ctime, and no program can put that
 *               back. (The mtime can be: tar, rsync -a and cp -a do.) The walk sees to it that a
 *               later change has another ctime (source/walk.c).
 *   mtime       needs no look of its own; it may tell where a file system's ctime does not.
 *   dev         tells file systems apart that are mounted at the same time. A number is used again,
 *               and it means something on one host, from its start to its end: the "boot".
 *   instance    tells a file system from one that had the same dev before:
 *                 - of a disk, its number in the order of all that were ever attached (diskseq): so
 *                   another image under this dev is noticed, though it brings its own times;
 *                 - where a clock gives the times, statfs(2)'s f_fsid, which may be 0: what was
 *                   mounted later has later times;
 *                 - else the number of the mount, which the kernel never uses again.
 *               0: it is not known, and equals nothing. So it is on FUSE, where a program makes
 *               up the times.
 *
 * Thread-safe; errno may change.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "listing/format.h"

/* What is remembered from one directory to the next; all zeros at first. */
struct shard_identity_eye {
  bool lazily; /* the caller's: on a network a time of some seconds ago will do */
  bool known;  /* the rest is of `dev` */
  bool clock;  /* times are of a clock: they tell after a boot, too */
  bool by_mount;
  uint64_t dev, instance;
};

/*
 * Look at the directory `path` below descriptor root, "": root itself. The path may be of any
 * length. 0, or -1 and errno.
 */
int shard_identity_look(struct shard_identity_eye *eye, int root, const char *path,
                        struct shard_dir *out);

/* Whether inode and times are equal: all that is the same on each host. */
bool shard_identity_is_equal(const struct shard_dir *a, const struct shard_dir *b);

/* Which boot of which host this is. 1; 0, and zeros, if there is no /proc that tells it; or a
 * negative errno: it cannot be told now. */
int shard_identity_boot(uint8_t boot[SHARD_BOOT_SIZE]);
