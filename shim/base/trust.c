/* SPDX-License-Identifier: MIT */
#include "base/trust.h"

#include <errno.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/kernel.h"

enum shard_trust shard_trust_check(const struct stat *st, const struct stat *beside) {
  if (!S_ISREG(st->st_mode)) {
    return SHARD_TRUST_NOT_REGULAR;
  }
  if (st->st_uid != 0 && st->st_uid != shard_kernel_euid() &&
      !(beside && st->st_uid == beside->st_uid)) {
    return SHARD_TRUST_FOREIGN_OWNER;
  }
  bool group = (st->st_mode & S_IWGRP) &&
               !(beside && (beside->st_mode & S_IWGRP) && beside->st_gid == st->st_gid);
  return group || (st->st_mode & S_IWOTH) ? SHARD_TRUST_FOREIGN_WRITERS : SHARD_TRUST_OK;
}

int shard_trust_product(const struct stat *st, const char *path, const char *done,
                        const struct stat *beside, const char *other, char *err, size_t size) {
  switch (shard_trust_check(st, beside)) {
  case SHARD_TRUST_NOT_REGULAR:
    return shard_error_set(err, size, -EPERM,
                           "'%.300s' is not a regular file; install libshard again", path);
  case SHARD_TRUST_FOREIGN_OWNER:
    return shard_error_set(err, size, -EPERM,
                           "'%.300s' is not %s: it belongs to user %u, not to root, to this user "
                           "or to the owner of %s; install both together",
                           path, done, (unsigned)st->st_uid, other);
  case SHARD_TRUST_FOREIGN_WRITERS:
    return shard_error_set(err, size, -EPERM,
                           "'%.300s' is not %s: others can write to it; chmod go-w '%.300s'", path,
                           done, path);
  default:
    return 0;
  }
}
