/* SPDX-License-Identifier: MIT */
#include "cache/safe.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/kernel.h"
#include "base/trust.h"
#include "listing/listing.h"

static int judge(const struct stat *st, char *err, size_t size) {
  switch (shard_trust_check(st, NULL)) {
  case SHARD_TRUST_NOT_REGULAR:
    return shard_error_set(err, size, -EINVAL, "it is no regular file; remove it");
  case SHARD_TRUST_FOREIGN_OWNER:
    return shard_error_set(err, size, -EPERM, "it belongs to user %lu", (unsigned long)st->st_uid);
  case SHARD_TRUST_FOREIGN_WRITERS:
    return shard_error_set(err, size, -EPERM,
                           "others may write to it (mode %03o); look at what it holds, and chmod "
                           "go-w",
                           (unsigned)(st->st_mode & 0777));
  default:
    return 0;
  }
}

int shard_safe_open(const char *path, int flags, mode_t mode, struct stat *st, char *err,
                    size_t size) {
  struct stat own;
  st = st ? st : &own;
  int fd = shard_kernel_create(AT_FDCWD, path, flags | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, mode);
  if (fd < 0) {
    int rc = -errno;
    /* Another user's may not even be opened: say whose it is. */
    bool told = (rc == -EACCES || rc == -EPERM) &&
                shard_kernel_stat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW) == 0 &&
                judge(st, err, size) != 0;
    return told ? rc : shard_error_set(err, size, rc, "%s", strerror(-rc));
  }
  int rc = shard_kernel_fstat(fd, st) == 0
               ? judge(st, err, size)
               : shard_error_set(err, size, -errno, "%s", strerror(errno));
  if (rc != 0) {
    close(fd);
  }
  return rc ? rc : fd;
}

int shard_safe_read(const char *path) {
  char ignored[1];
  return shard_safe_open(path, O_RDONLY, 0, NULL, ignored, sizeof(ignored));
}

int shard_safe_listing(const char *path, struct shard_listing **out) {
  int saved = errno, rc = shard_listing_map(shard_safe_read(path), path, out);
  errno = saved;
  return rc;
}
