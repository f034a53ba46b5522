/* SPDX-License-Identifier: MIT */
/*
 * cachedir.c - finds the directory for listings, and checks that it is safe to use.
 */
#include "cache/cachedir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/kernel.h"
#include "config/config.h"

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

/* Where all users may make files, and nobody may touch another's: /dev/shm, /tmp. */
static bool is_common(const struct stat *st) {
  return S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) && (st->st_mode & OTHERS_WRITE) &&
         (st->st_uid == 0 || st->st_uid == shard_kernel_user());
}

/* A folder of this user's in a common one, "/dev/shm" for the default. */
static size_t print_own(const char *common, char *buf, size_t size) {
  size_t n = strlen(common);
  const char *slash = n > 0 && common[n - 1] == '/' ? "" : "/";
  int length =
      snprintf(buf, size, "%s%slibshard-%lu", common, slash, (unsigned long)shard_kernel_user());
  return length < 0 ? size : (size_t)length;
}

/* Whether the directory is safe. own: its name says that it is this user's alone. 0, or a negative
 * errno and a line. */
static int judge(const char *dir, bool own, char *err, size_t size) {
  struct stat st, link;
  /* Who owns a link may lead it elsewhere. */
  int rc = shard_kernel_stat(AT_FDCWD, dir, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
                   (own || shard_kernel_stat(AT_FDCWD, dir, &st, 0) == 0)
               ? 0
               : -errno;
  bool foreign_link = rc == 0 && link.st_uid != shard_kernel_user() && link.st_uid != 0;
  if (rc != 0) {
    return shard_error_set(err, size, rc,
                           "cannot use the cache directory '%.300s': %s; set SHARD_CACHE_DIR", dir,
                           strerror(-rc));
  }
  st = own || foreign_link ? link : st;
  if (!foreign_link && !S_ISDIR(st.st_mode)) {
    return shard_error_set(err, size, -ENOTDIR,
                           "the cache directory '%.300s' is not a directory; set SHARD_CACHE_DIR",
                           dir);
  }
  if (st.st_uid != shard_kernel_user() && (own || st.st_uid != 0)) {
    return shard_error_set(err, size, -EPERM,
                           "the cache directory '%.300s' belongs to another user (uid %lu); set "
                           "SHARD_CACHE_DIR to a directory of your own",
                           dir, (unsigned long)st.st_uid);
  }
  if (own && (st.st_mode & 077)) {
    return shard_error_set(err, size, -EPERM,
                           "the cache directory '%.300s' is open to others; chmod 700 it", dir);
  }
  if (st.st_mode & OTHERS_WRITE) {
    return shard_error_set(err, size, -EPERM,
                           "others may write to the cache directory '%.300s' (mode %04o); chmod "
                           "go-w it, or set SHARD_CACHE_DIR to a directory of your own",
                           dir, (unsigned)(st.st_mode & 07777));
  }
  return 0;
}

ssize_t shard_cachedir_find(bool make, char *buf, size_t size, char *err, size_t errsize) {
  int saved = errno, rc = 0;
  char *set = NULL; /* without slashes at its end, which would follow a link */
  if (shard_config()->cache_dir) {
    size_t n = strlen(shard_config()->cache_dir);
    set = strdupa(shard_config()->cache_dir);
    while (n > 1 && set[n - 1] == '/') {
      set[--n] = 0;
    }
  }
  struct stat st;
  bool own = !set || (shard_kernel_stat(AT_FDCWD, set, &st, 0) == 0 && is_common(&st));
  size_t length =
      own ? print_own(set ? set : "/dev/shm", buf, size) : (size_t)snprintf(buf, size, "%s", set);
  if (length >= size) {
    rc = shard_error_set(err, errsize, -ENAMETOOLONG,
                         "the path of the cache directory is too long; "
                         "set SHARD_CACHE_DIR");
  } else if (make && mkdir(buf, 0700) != 0 && errno != EEXIST) {
    rc = shard_error_set(err, errsize, -errno,
                         "cannot make the cache directory '%.300s': %s; set SHARD_CACHE_DIR", buf,
                         strerror(errno));
  } else {
    rc = judge(buf, own, err, errsize);
  }
  errno = saved;
  return rc ? rc : (ssize_t)length;
}

ssize_t shard_cache_dir(char *buf, size_t size, char *err, size_t errsize) {
  return shard_cachedir_find(true, buf, size, err, errsize);
}
