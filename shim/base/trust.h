/* SPDX-License-Identifier: MIT */
/* trust.h - whether only this user or root can have written a file. */
#pragma once

#include <stddef.h>
#include <sys/stat.h>

enum shard_trust {
  SHARD_TRUST_OK,
  SHARD_TRUST_NOT_REGULAR,    /* the file is no regular file */
  SHARD_TRUST_FOREIGN_OWNER,  /* another user owns the file */
  SHARD_TRUST_FOREIGN_WRITERS /* other users may write to the file */
};

/*
 * Checks an open file: a regular file of this user or of root, to which nobody else may write.
 * beside: a file that is trusted already, or NULL. Its owner is trusted too, and so is its group,
 * if that group may write to it.
 */
enum shard_trust shard_trust_check(const struct stat *st, const struct stat *beside);

/*
 * Checks a program or library of libshard's: whoever can write to it controls the process that runs
 * or loads it.
 * st, path: of the file.
 * done: "run" or "loaded", for the line.
 * beside, other: the stat and the name of the other product.
 * Errors: -EPERM and a line.
 */
int shard_trust_product(const struct stat *st, const char *path, const char *done,
                        const struct stat *beside, const char *other, char *err, size_t size);
