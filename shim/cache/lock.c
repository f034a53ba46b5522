/* SPDX-License-Identifier: MIT */
#include "cache/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/kernel.h"
#include "cache/safe.h"

#define TELL_MS 5000

/*
 * Open the lock file. The descriptor, or a negative errno and a line in err[size]. *common: other
 * users could open it (chmod -R), and whoever has a file open may lock it. From now on they cannot.
 */
static int open_lock(const char *file, bool *common, char *err, size_t size) {
  char why[200];
  struct stat st;
  int fd = shard_safe_open(file, O_RDWR | O_CREAT, 0600, &st, why, sizeof(why));
  bool shortage = fd < 0 && shard_error_is_shortage(fd);
  *common = fd >= 0 && (st.st_mode & (S_IRWXG | S_IRWXO));
  if (fd >= 0 && (st.st_mode & ACCESSPERMS) != (S_IRUSR | S_IWUSR)) { /* a umask may be 0777 */
    fchmod(fd, S_IRUSR | S_IWUSR);
  }
  if (fd >= 0) {
    fd = shard_file_move_fd(fd);
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
    int named = rc > 0 ? shard_kernel_has_name(*lock, AT_FDCWD, file) : 0;
    rc = named < 0 ? named : rc;
    if (rc > 0 && named > 0) {
      /* Who has opened it before may lock it later: let it be another file. Once, for there are
       * file systems on which all are common. */
      if (!common || renewed || unlink(file) != 0) {
        return 0;
      }
      renewed = true;
      shard_lock_release(*lock, NULL);
      *lock = -1;
      continue;
    }
    if (rc != 0) { /* the file that has the name now is another one */
      shard_lock_release(*lock, NULL);
      *lock = -1;
    }
    if (rc < 0) {
      return shard_error_set(err, size, rc, "cannot lock '%.300s': %s; set SHARD_CACHE_DIR", file,
                             strerror(-rc));
    }
    int64_t now = shard_clock_ms();
    if (now >= deadline) {
      shard_lock_release(*lock, NULL);
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

void shard_lock_release(int lock, const char *remove) {
  if (lock >= 0) {
    if (remove) {
      unlink(remove);
    }
    flock(lock, LOCK_UN); /* closing alone would not do: a child forked meanwhile has it open too */
    close(lock);
  }
}

int shard_lock_join(const char *file, bool held, bool *first, char *why, size_t size) {
  for (;;) {
    /* An exclusive lock takes leave to write, where a server keeps it. */
    int fd = shard_safe_open(file, O_RDWR, 0, NULL, why, size);
    if (fd < 0) {
      return fd;
    }
    int alone = try(fd), rc = alone < 0 ? alone : 0, named = 0;
    if (alone > 0 && held && (named = shard_kernel_has_name(fd, AT_FDCWD, file)) > 0) {
      rc = unlink(file) == 0 ? -ENOENT : -errno;
    }
    if (rc == 0 && TEMP_FAILURE_RETRY(flock(fd, LOCK_SH)) != 0) {
      rc = -errno;
    }
    /* Between two locks it may have been removed. */
    named = rc == 0 && named >= 0 ? shard_kernel_has_name(fd, AT_FDCWD, file) : named;
    rc = rc == 0 && named < 0 ? named : rc;
    if (rc == 0 && named > 0) {
      *first = alone > 0;
      return fd;
    }
    shard_lock_release(fd, NULL);
    if (rc != 0) {
      return shard_error_set(why, size, rc, "%s", strerror(-rc));
    }
  }
}

/* By the kernel's list, proc_locks(5): to take a lock, for a moment, would look as if a process had
 * it. */
bool shard_lock_is_held(const struct stat *st) {
  size_t size;
  char inode[32], *text = shard_file_read("/proc/locks", &size), *rest = text;
  bool held = !text; /* not known */
  snprintf(inode, sizeof(inode), ":%llu ", (unsigned long long)st->st_ino);
  for (char *line; !held && (line = strsep(&rest, "\n"));) {
    held = strstr(line, "FLOCK") && strstr(line, inode);
  }
  free(text);
  return held;
}

bool shard_lock_remove(int at, const char *name) {
  int fd = shard_kernel_open(at, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  bool removed = fd >= 0 && try(fd) > 0 && shard_kernel_has_name(fd, at, name) > 0 &&
                 unlinkat(at, name, 0) == 0;
  shard_lock_release(fd, NULL);
  return removed;
}
