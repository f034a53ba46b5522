/* SPDX-License-Identifier: MIT */
/*
 * identity.h - reads the identity of a directory, which changes when the directory's names change:
 * struct shard_dir of format.h.
 *
 *   ino, ctime  A change of a directory's names sets the directory's ctime, and no program can set
 *               the ctime back. (A program can set the mtime back: tar, rsync -a and cp -a do.) The
 *               walk makes sure that a later change gets another ctime (source/walk.c).
 *   mtime       takes no call of its own; it may change on a file system whose ctime does not.
 *   image       Directories of two read-only images may have the same inodes and times. An image
 *               has a number if the kernel derives one from the image's UUID (erofs). Other images
 *               (squashfs) have nothing that tells one image from another.
 *
 * On FUSE a program may make up inodes and times.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "listing/format.h"

#define SHARD_BOOT_SIZE 16 /* bytes */

/* The file system of the directory that was read last; all zeros at first. */
struct shard_identity_eye {
  bool lazily;         /* set by the caller: a network file system may return cached times */
  bool known;          /* the fields below are set */
  bool invented;       /* the file system is FUSE */
  bool untold;         /* the file system is an image without a number */
  uint64_t dev, image; /* the file system's device; the image's number, or 0 */
};

/*
 * Reads the identity of a directory.
 * root: a descriptor. path: relative to root, of any length; "" is root itself.
 * Errors: -1 and errno.
 */
int shard_identity_look(struct shard_identity_eye *eye, int root, const char *path,
                        struct shard_dir *out);

/* Returns whether two identities are equal. */
bool shard_identity_is_equal(const struct shard_dir *a, const struct shard_dir *b);

/*
 * Reads the kernel's ID of this boot, which no other boot and no other host has.
 * Returns 1; 0 and zeros if /proc is missing or does not show the ID.
 * Errors: a negative errno: the ID cannot be read now.
 */
int shard_identity_boot(uint8_t boot[SHARD_BOOT_SIZE]);
