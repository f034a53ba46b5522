/* SPDX-License-Identifier: MIT */
#include "cache/collect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "base/process.h"
#include "base/workspace.h"
#include "cache/filenames.h"
#include "cache/lock.h"

#define DAY (24L * 3600) /* seconds */
#define MONTH (30 * DAY)

int shard_collect_each(const char *path, void (*each)(int fd, const char *name, void *context),
                       void *context) {
  SHARD_WORKSPACE(buf);
  int fd = buf ? shard_kernel_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY) : -1;
  int rc = !buf ? -ENOMEM : fd < 0 ? -errno : 0;
  long n;
  while (fd >= 0 && (n = syscall(SYS_getdents64, fd, buf, SHARD_WORKSPACE_SIZE)) > 0) {
    for (long at = 0; at < n;) {
      const struct dirent64 *entry = (const struct dirent64 *)(buf + at);
      at += entry->d_reclen;
      if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
        each(fd, entry->d_name, context);
      }
    }
  }
  shard_kernel_close(fd);
  return rc;
}

enum fate { LIVES, GONE, UNTOLD };

/* What has become of a listing's owner: untold if it has no process, or one of another PID
 * namespace, or one that /proc hides. */
static enum fate find_fate(const struct shard_cache_owner *owner) {
  struct shard_process now;
  struct stat st;
  if (owner->pid == 0 || shard_kernel_stat(AT_FDCWD, "/proc/self/ns/pid", &st, 0) != 0 ||
      st.st_ino != owner->space) {
    return UNTOLD;
  }
  if (shard_process_read(owner->pid, &now)) {
    return now.start == owner->start ? LIVES : GONE;
  }
  return kill((pid_t)owner->pid, 0) != 0 && errno == ESRCH ? GONE : UNTOLD;
}

/* Why a file can go, if no process has it; NULL: it stays. */
static const char *why_remove(enum shard_cache_kind kind, const struct shard_cache_owner *owner,
                              int64_t age, int64_t older_than) {
  if (kind != SHARD_CACHE_FOREIGN && older_than >= 0) {
    return age >= older_than ? "old" : NULL;
  }
  enum fate fate = kind == SHARD_CACHE_LISTING ? find_fate(owner) : UNTOLD;
  switch (kind) {
  case SHARD_CACHE_LISTING:
    return owner->held                      ? "of a job that has ended"
           : fate == GONE                   ? "of a job that is gone"
           : fate == UNTOLD && age >= MONTH ? "of a month ago"
                                            : NULL;
  case SHARD_CACHE_NEW:
    return "left by a killed process";
  case SHARD_CACHE_LOCK:
    return "nobody's";
  case SHARD_CACHE_PERMUTATION:
    return age >= DAY ? "of a day ago" : NULL;
  case SHARD_CACHE_FOREIGN:
    break;
  }
  return NULL;
}

/* What is asked for, and where. */
struct collecting {
  const char *cache;
  const struct shard_collect *how;
};

/* Remove what a process was making, unless it lives: then it has the lock. */
static bool remove_unfinished(const char *cache, int fd, const char *name) {
  SHARD_WORKSPACE(path);
  char ignored[1];
  int lock;
  if (!path) {
    return false;
  }
  snprintf(path, PATH_MAX, "%s/%.32s.lock", cache, name);
  bool dead = shard_lock_take(path, 0, NULL, NULL, &lock, ignored, sizeof(ignored)) == 0;
  bool removed = dead && unlinkat(fd, name, 0) == 0;
  shard_lock_release(lock, path);
  return removed;
}

static void collect(int fd, const char *name, void *context) {
  const struct collecting *c = context;
  struct shard_cache_owner owner;
  struct stat st;
  if (shard_kernel_stat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) ||
      st.st_uid != shard_kernel_euid()) {
    return;
  }
  enum shard_cache_kind kind = shard_cache_name_parse(name, &owner);
  int64_t age = shard_clock_real_ns() / 1000000000 - st.st_mtim.tv_sec;
  const char *why = why_remove(kind, &owner, age, c->how->older_than);
  bool removed = why && (c->how->dry               ? !shard_lock_is_held(&st)
                         : kind == SHARD_CACHE_NEW ? remove_unfinished(c->cache, fd, name)
                                                   : shard_lock_remove(fd, name));
  if (removed && kind != SHARD_CACHE_LOCK && c->how->tell) {
    c->how->tell(c->how->context, name, &st, why);
  }
}

int shard_collect(const char *cache, const struct shard_collect *how) {
  struct collecting c = {cache, how};
  return shard_collect_each(cache, collect, &c);
}
