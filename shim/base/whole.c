/* SPDX-License-Identifier: MIT */
#include "base/whole.h"

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
/* mkostemp() replaces PLACES by some of LETTERS. */
#define PLACES "XXXXXX"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

int shard_whole_may_replace(const char *path) {
  struct stat st;
  char link[16];
  ssize_t n = readlink(path, link, sizeof(link));
  if (n > 6 && memcmp(link, "/proc/", 6) == 0) {
    return -EEXIST; /* /dev/stdout: the system's name, even if it leads to a file */
  }
  if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) {
    return 0;
  }
  return S_ISDIR(st.st_mode) ? -EISDIR : -EEXIST;
}

/* Lock the new temporary. 1: it is ours, locked, and still there. 0: it is another's. Or a negative
 * errno. */
static int make_ours(int fd) {
  struct stat st;
  /* Before we lock it, another writer may take it for a dead writer's: the other then holds the
   * lock and is about to remove the file, or has removed it. */
  bool taken = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  return taken ? 0 : fstat(fd, &st) != 0 ? -errno : st.st_nlink > 0;
}

int shard_whole_open(struct shard_whole *w, const char *path, enum shard_whole_mode mode,
                     enum shard_whole_sync sync) {
  char temporary[PATH_MAX];
  *w = (struct shard_whole){.fd = -1, .path = path, .mode = mode, .sync = sync};
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
    int ours = make_ours(fd);
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

const char *shard_whole_temporary(const struct shard_whole *w, char buf[PATH_MAX]) {
  snprintf(buf, PATH_MAX, "%s" INFIX "%s", w->path, w->letters);
  return buf;
}

/* Set the mode that the caller asked for. UMASK: a file system may keep none; that is no error. */
static int set_mode(const struct shard_whole *w) {
  if (w->mode == SHARD_WHOLE_PRIVATE) {
    return 0;
  }
  if (w->mode == SHARD_WHOLE_SHARED) {
    return fchmod(w->fd, 0644) == 0 ? 0 : -errno;
  }
  mode_t mask = umask(0);
  umask(mask);
  bool set = fchmod(w->fd, 0666 & ~mask) == 0;
  return set || errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS ? 0 : -errno;
}

int shard_whole_finish(struct shard_whole *w) {
  if (w->fd < 0) {
    return 0;
  }
  int rc = set_mode(w);
  if (rc == 0 && w->sync == SHARD_WHOLE_SYNCED && TEMP_FAILURE_RETRY(fsync(w->fd)) != 0) {
    rc = -errno;
  }
  if (close(w->fd) != 0 && rc == 0) {
    rc = -errno; /* a network file system may report a failed write only now */
  }
  w->fd = -1;
  return rc;
}

int shard_whole_publish(struct shard_whole *w) {
  return shard_whole_publish_checked(w, NULL, NULL);
}

int shard_whole_publish_checked(struct shard_whole *w,
                                int (*check)(void *context, const char *temporary), void *context) {
  char temporary[PATH_MAX];
  /* Keep the lock until the file has its name. */
  int lock = w->fd < 0 ? -1 : fcntl(w->fd, F_DUPFD_CLOEXEC, 0);
  int rc = shard_whole_finish(w);
  if (rc == 0 && check) {
    rc = check(context, shard_whole_temporary(w, temporary));
  }
  if (rc == 0 && rename(shard_whole_temporary(w, temporary), w->path) != 0) {
    rc = -errno;
  }
  if (rc == 0) {
    w->letters[0] = 0;
  } else {
    shard_whole_abort(w);
  }
  shard_file_close(lock);
  return rc;
}

int shard_whole_publish_new(struct shard_whole *w) {
  char temporary[PATH_MAX];
  if (link(shard_whole_temporary(w, temporary), w->path) != 0) {
    struct stat st;
    return errno == EEXIST || lstat(w->path, &st) == 0 ? -EEXIST : shard_whole_publish(w);
  }
  int rc = shard_whole_finish(w);
  if (rc != 0) {
    unlink(w->path);
  }
  shard_whole_abort(w);
  return rc;
}

void shard_whole_abort(struct shard_whole *w) {
  char temporary[PATH_MAX];
  int saved = errno;
  if (!w->letters[0]) {
    return;
  }
  unlink(shard_whole_temporary(w, temporary));
  w->letters[0] = 0;
  if (w->fd >= 0) {
    close(w->fd);
    w->fd = -1;
  }
  errno = saved;
}

void shard_whole_remove_dead(const char *path) {
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
