/* SPDX-License-Identifier: MIT */
#include "base/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define INFIX ".tmp."
/* mkostemp(3) replaces PLACES by some of LETTERS. */
#define PLACES "XXXXXX"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

int shard_atomic_file_may_replace(const char *path) {
  struct stat st;
  char link[16];
  ssize_t n = readlink(path, link, sizeof(link));
  if (n > 6 && memcmp(link, "/proc/", 6) == 0) {
    return -EEXIST; /* such as /dev/stdout, also if the link leads to a regular file */
  }
  if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) {
    return 0;
  }
  return S_ISDIR(st.st_mode) ? -EISDIR : -EEXIST;
}

/*
 * Locks the new temporary. Returns 1 if the temporary is locked and still has its name; 0 if
 * another writer has locked or removed it.
 */
static int lock_temporary(int fd) {
  struct stat st;
  /* Until the lock is taken, another writer may take this temporary for a dead writer's: that
   * writer then holds the lock and is about to remove the temporary, or has removed it. */
  bool taken = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  return taken ? 0 : fstat(fd, &st) != 0 ? -errno : st.st_nlink > 0;
}

int shard_atomic_file_open(struct shard_atomic_file *w, const char *path,
                           enum shard_atomic_file_mode mode, enum shard_atomic_file_sync sync) {
  char temporary[PATH_MAX];
  *w = (struct shard_atomic_file){.fd = -1, .path = path, .mode = mode, .sync = sync};
  for (int tries = 0; tries < 100; tries++) {
    int n = snprintf(temporary, sizeof(temporary), "%s" INFIX PLACES, path);
    if (n < 0 || (size_t)n >= sizeof(temporary)) {
      return -ENAMETOOLONG;
    }
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0 && errno == EINTR) {
      continue;
    }
    if (fd < 0) {
      return -errno;
    }
    int ours = lock_temporary(fd);
    if (ours > 0) {
      w->fd = fd;
      memcpy(w->letters, temporary + n - strlen(PLACES), sizeof(PLACES));
      return 0;
    }
    if (ours < 0) {
      unlink(temporary);
    }
    close(fd);
    if (ours < 0) {
      return ours;
    }
  }
  return -EBUSY;
}

const char *shard_atomic_file_temporary(const struct shard_atomic_file *w, char buf[PATH_MAX]) {
  snprintf(buf, PATH_MAX, "%s" INFIX "%s", w->path, w->letters);
  return buf;
}

/* Sets the mode. With UMASK, a file system that keeps no modes is no error. */
static int set_mode(const struct shard_atomic_file *w) {
  if (w->mode == SHARD_ATOMIC_FILE_PRIVATE) {
    return 0;
  }
  if (w->mode == SHARD_ATOMIC_FILE_SHARED) {
    return fchmod(w->fd, 0644) == 0 ? 0 : -errno;
  }
  mode_t mask = umask(0);
  umask(mask);
  bool set = fchmod(w->fd, 0666 & ~mask) == 0;
  return set || errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS ? 0 : -errno;
}

int shard_atomic_file_finish(struct shard_atomic_file *w) {
  if (w->fd < 0) {
    return 0;
  }
  int rc = set_mode(w);
  if (rc == 0 && w->sync == SHARD_ATOMIC_FILE_SYNCED && TEMP_FAILURE_RETRY(fsync(w->fd)) != 0) {
    rc = -errno;
  }
  if (close(w->fd) != 0 && rc == 0) {
    rc = -errno; /* a network file system may report a failed write as late as this */
  }
  w->fd = -1;
  return rc;
}

int shard_atomic_file_publish(struct shard_atomic_file *w) {
  return shard_atomic_file_publish_checked(w, NULL, NULL);
}

int shard_atomic_file_publish_checked(struct shard_atomic_file *w,
                                      int (*check)(void *context, const char *temporary),
                                      void *context) {
  char temporary[PATH_MAX];
  /* The lock is kept until the file has its path. */
  int lock = w->fd < 0 ? -1 : fcntl(w->fd, F_DUPFD_CLOEXEC, 0);
  int rc = shard_atomic_file_finish(w);
  if (rc == 0 && check) {
    rc = check(context, shard_atomic_file_temporary(w, temporary));
  }
  if (rc == 0 && rename(shard_atomic_file_temporary(w, temporary), w->path) != 0) {
    rc = -errno;
  }
  if (rc == 0) {
    w->letters[0] = 0;
  } else {
    shard_atomic_file_abort(w);
  }
  shard_file_close(lock);
  return rc;
}

void shard_atomic_file_abort(struct shard_atomic_file *w) {
  char temporary[PATH_MAX];
  int saved = errno;
  if (!w->letters[0]) {
    return;
  }
  unlink(shard_atomic_file_temporary(w, temporary));
  w->letters[0] = 0;
  if (w->fd >= 0) {
    close(w->fd);
    w->fd = -1;
  }
  errno = saved;
}

void shard_atomic_file_remove_stale(const char *path) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  size_t n = strlen(name), before = n + strlen(INFIX);
  snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(name - path) : 1, slash ? path : ".");
  DIR *dir = opendir(folder);
  const struct dirent *entry;
  while (dir && (entry = readdir(dir))) {
    const char *found = entry->d_name;
    if (strncmp(found, name, n) != 0 || strncmp(found + n, INFIX, strlen(INFIX)) != 0 ||
        strlen(found + before) != strlen(PLACES) ||
        strspn(found + before, LETTERS) != strlen(PLACES)) {
      continue;
    }
    int fd = openat(dirfd(dir), found, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
      unlinkat(dirfd(dir), found, 0);
    }
    shard_file_close(fd);
  }
  if (dir) {
    closedir(dir);
  }
}
