/* SPDX-License-Identifier: MIT */
#include "cache/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/kernel.h"
#include "cache/safe.h"
#include "host/builder.h"

#define TELL_MS 5000

/*
 * Open the lock file. The descriptor, or a negative errno and a line in err[size]. *common: other
 * users could open it (chmod -R), and whoever has a file open may lock it. From now on they cannot.
 */
static int open_lock(const char *file, bool *common, char *err, size_t size) {
  char why[200];
  struct stat st;
  int fd = shard_safe_open(file, O_RDWR | O_CREAT, 0600, false, &st, why, sizeof(why));
  bool shortage = fd < 0 && shard_error_is_shortage(fd);
  *common = fd >= 0 && (st.st_mode & (S_IRWXG | S_IRWXO));
  if (fd >= 0 && (st.st_mode & ACCESSPERMS) != (S_IRUSR | S_IWUSR)) { /* a umask may be 0777 */
    fchmod(fd, S_IRUSR | S_IWUSR);
  }
  if (fd >= 0) {
    fd = shard_builder_move_fd(fd);
    fd = fd < 0 ? shard_error_set(err, size, -errno, "%s", strerror(errno)) : fd;
    return fd;
  }
  int rc = fd == -EINVAL || fd == -ELOOP ? -EPERM : fd;
  return shard_error_set(err, size, rc, "cannot use '%.300s': %s%s", file, why,
                         shortage ? "" : "; set SHARD_CACHE_DIR");
}

/* 1: it is ours. 0: somebody has it. Or a negative errno. */
static int try(int fd) {
  int rc = flock(fd, LOCK_EX | LOCK_NB);
  return rc == 0 ? 1 : errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
}

int shard_lock_take(const char *file, int64_t deadline,
                    void (*tell)(const void *context, int64_t left), const void *context, int *lock,
                    char *err, size_t size) {
  int64_t said = shard_clock_ms();
  bool common = false, renewed = false;
  int rc = 0;
  *lock = -1;
  for (long nap_ms = 1;;) {
    if (*lock < 0) {
      *lock = open_lock(file, &common, err, size);
      if (*lock < 0) {
        rc = *lock;
        *lock = -1;
        return rc;
      }
    }
    rc = try(*lock);
    if (rc > 0 && shard_kernel_has_name(*lock, AT_FDCWD, file)) {
      /* Who has opened it before may lock it later: let it be another file. Once, for there are
       * file systems on which all are common. */
      if (!common || renewed || unlink(file) != 0) {
        return 0;
      }
      renewed = true;
      shard_lock_release(*lock);
      *lock = -1;
      continue;
    }
    if (rc != 0) { /* the file that has the name now is another one */
      shard_lock_release(*lock);
      *lock = -1;
    }
    if (rc < 0) {
      return shard_error_set(err, size, rc, "cannot lock '%.300s': %s; set SHARD_CACHE_DIR", file,
                             strerror(-rc));
    }
    int64_t now = shard_clock_ms();
    if (now >= deadline) {
      shard_lock_release(*lock);
      *lock = -1;
      return -ETIMEDOUT;
    }
    if (rc == 0) {
      nanosleep(&(struct timespec){0, nap_ms * 1000000L}, NULL);
      nap_ms = nap_ms < 50 ? nap_ms * 2 : 50;
    }
    if (tell && now >= said + TELL_MS) {
      said = now;
      tell(context, deadline - now);
    }
  }
}

void shard_lock_release(int lock) {
  if (lock >= 0) {
    flock(lock, LOCK_UN); /* closing alone would not do: a child forked meanwhile has it open too */
    close(lock);
  }
}

void shard_lock_remove(const char *file) {
  char ignored[1];
  int fd = shard_safe_open(file, O_RDWR, 0, false, NULL, ignored, sizeof(ignored));
  if (fd >= 0 && try(fd) > 0 && shard_kernel_has_name(fd, AT_FDCWD, file)) {
    unlink(file);
  }
  if (fd >= 0) {
    shard_lock_release(fd);
  }
}
