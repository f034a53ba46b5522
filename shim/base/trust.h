/* SPDX-License-Identifier: MIT */
/* trust.h - whether a file is to be believed: who owns it, and who else may write to it. */
#pragma once

#include <stddef.h>
#include <sys/stat.h>

enum shard_trust {
  SHARD_TRUST_GOOD,
  SHARD_TRUST_KIND,   /* it is no regular file */
  SHARD_TRUST_OWNER,  /* it is another user's */
  SHARD_TRUST_WRITERS /* others may write to it */
};

/*
 * Judge what was opened: a regular file, of this user or of root, to which nobody else may write.
 * beside: a file that is believed already; its owner, and its group if that may write to it, are
 * believed, too. It may be NULL.
 */
enum shard_trust shard_trust_judge(const struct stat *st, const struct stat *beside);

/*
 * The same of a program or library of ours, st of path, beside the other product, whose name is
 * `other`: who may write to it can run what he likes in the process that `done` it ("run",
 * "loaded"). 0, or -EPERM and a line in err[size] that names the file and says what to do.
 */
int shard_trust_product(const struct stat *st, const char *path, const char *done,
                        const struct stat *beside, const char *other, char *err, size_t size);
