/* SPDX-License-Identifier: MIT */
/*
 * cachedir.c - finds the directory for listings, and checks that it is safe to use.
 */
#include "cache/cachedir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/kernel.h"
#include "base/process.h"
#include "config/config.h"

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)
#define REMEDY "set SHARD_CACHE_DIR to a directory of your own"

/*
 * Whether a file belongs to the overflow user of a user namespace: to some user outside, such as
 * the root of the host that owns /tmp. Outside of user namespaces this is a user like others.
 */
static bool is_of_overflow_user(const struct stat *st) {
  size_t size;
  char *number = shard_file_read("/proc/sys/kernel/overflowuid", &size);
  bool overflow = number && size > 0 && strtoul(number, NULL, 10) == st->st_uid;
  free(number);
  return overflow && shard_process_in_user_namespace();
}

/* Where all users may make files, and nobody may touch another's: /tmp, /dev/shm. */
static bool is_common(const struct stat *st) {
  return S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) && (st->st_mode & OTHERS_WRITE) &&
         (st->st_uid == 0 || st->st_uid == shard_kernel_euid() || is_of_overflow_user(st));
}

/* Print the path of this user's folder in a common one. */
static size_t print_own(const char *common, char *buf, size_t size) {
  size_t n = strlen(common);
  const char *slash = n > 0 && common[n - 1] == '/' ? "" : "/";
  int length =
      snprintf(buf, size, "%s%slibshard-%lu", common, slash, (unsigned long)shard_kernel_euid());
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
  bool foreign_link = rc == 0 && link.st_uid != shard_kernel_euid() && link.st_uid != 0;
  if (rc != 0) {
    return shard_error_set(err, size, rc, "cannot use the cache directory '%.300s': %s; " REMEDY,
                           dir, strerror(-rc));
  }
  st = own || foreign_link ? link : st;
  if (!foreign_link && !S_ISDIR(st.st_mode)) {
    return shard_error_set(err, size, -ENOTDIR,
                           "the cache directory '%.300s' is not a directory; " REMEDY, dir);
  }
  if (st.st_uid != shard_kernel_euid() && (own || st.st_uid != 0)) {
    return shard_error_set(
        err, size, -EPERM,
        "the cache directory '%.300s' belongs to another user (uid %lu); " REMEDY, dir,
        (unsigned long)st.st_uid);
  }
  if (own && (st.st_mode & 077)) {
    return shard_error_set(err, size, -EPERM,
                           "the cache directory '%.300s' is open to others; chmod 700 the "
                           "directory, or " REMEDY,
                           dir);
  }
  if (st.st_mode & OTHERS_WRITE) {
    return shard_error_set(err, size, -EPERM,
                           "others may write to the cache directory '%.300s' (mode %04o); chmod "
                           "go-w the directory, or " REMEDY,
                           dir, (unsigned)(st.st_mode & 07777));
  }
  return 0;
}

/* Create the directory if it is not there. 0 or a negative errno. */
static int create(const char *dir) {
  if (mkdir(dir, S_IRWXU) == 0) {
    return chmod(dir, S_IRWXU) == 0 ? 0 : -errno; /* a umask may be 0777 */
  }
  return errno == EEXIST ? 0 : -errno;
}

/* ---- the default ---- */

/* Why the folder of this user cannot be made in a common one: a negative errno; 0: it can be, or is
 * there. A folder that is there is no cache on a file system that is read-only now. */
static int cannot_make(const char *common, const char *dir, bool make) {
  struct stat st;
  bool there = shard_kernel_stat(AT_FDCWD, dir, &st, AT_SYMLINK_NOFOLLOW) == 0;
  if (!there && make) {
    return create(dir);
  }
  int rc = faccessat(AT_FDCWD, there ? dir : common, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : -errno;
  return there && rc != -EROFS ? 0 : rc;
}

/* The folder in /tmp, or in /dev/shm. Returns the length of the path, or a negative errno and a
 * line. */
static ssize_t find_default(bool make, char *buf, size_t size, char *err, size_t errsize) {
  size_t length = print_own("/tmp", buf, size);
  int first = length < size ? cannot_make("/tmp", buf, make) : 0, rc = first;
  /* /dev/shm is often small, and logind may empty it while a job runs (RemoveIPC). */
  if (first == -EROFS || first == -EACCES || first == -ENOENT) {
    length = print_own("/dev/shm", buf, size);
    rc = length < size && make ? create(buf) : 0;
  }
  if (length >= size || rc == 0) {
    return (ssize_t)length;
  }
  bool second = strncmp(buf, "/tmp/", 5) != 0;
  return shard_error_set(
      err, errsize, rc, "cannot make the cache directory '%.300s': %s%s%s; " REMEDY, buf,
      strerror(-rc), second ? "; nor one in /tmp: " : "", second ? strerror(-first) : "");
}

/* ---- SHARD_CACHE_DIR ---- */

/* As find_default(). *own: the directory is libshard-UID in a common folder. */
static ssize_t find_set(const char *variable, bool make, bool *own, char *buf, size_t size,
                        char *err, size_t errsize) {
  struct stat st;
  char *set = strdup(variable);
  if (!set) {
    return shard_error_set(err, errsize, -ENOMEM, "out of memory");
  }
  /* A slash at the end would follow a link. */
  for (size_t n = strlen(set); n > 1 && set[n - 1] == '/'; n--) {
    set[n - 1] = 0;
  }
  *own = shard_kernel_stat(AT_FDCWD, set, &st, 0) == 0 && is_common(&st);
  size_t length = *own ? print_own(set, buf, size) : (size_t)snprintf(buf, size, "%s", set);
  free(set);
  int rc = length < size && make ? create(buf) : 0;
  return rc == 0 ? (ssize_t)length
                 : shard_error_set(err, errsize, rc,
                                   "cannot make the cache directory '%.300s': %s; " REMEDY, buf,
                                   strerror(-rc));
}

ssize_t shard_cachedir_find(bool make, char *buf, size_t size, char *err, size_t errsize) {
  int saved = errno;
  bool own = true;
  const char *set = shard_config()->cache_dir;
  ssize_t rc = set ? find_set(set, make, &own, buf, size, err, errsize)
                   : find_default(make, buf, size, err, errsize);
  if (rc >= (ssize_t)size) {
    rc = shard_error_set(err, errsize, -ENAMETOOLONG,
                         "the path of the cache directory, '%.300s', is too long; " REMEDY, buf);
  } else if (rc >= 0) {
    int judged = judge(buf, own, err, errsize);
    rc = judged ? judged : rc;
  }
  errno = saved;
  return rc;
}

ssize_t shard_cache_dir(char *buf, size_t size, char *err, size_t errsize) {
  return shard_cachedir_find(true, buf, size, err, errsize);
}
