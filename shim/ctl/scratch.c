/* SPDX-License-Identifier: MIT */
/*
 * scratch.c - makes PARENT/.shardctl-put.XXXXXX, which shardctl locks while it lives. A folder that
 * is not locked was left by a shardctl that was killed, and is removed by the next shardctl. Where
 * locks do not work, no folder is removed.
 */
#include "ctl/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "config/config.h"
#include "ctl/ctl.h"

#define PREFIX ".shardctl-put." /* nobody else has such a folder */

static int open_folder(int at, const char *name) {
  return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Remove the files of a folder, which has no folders. */
static void empty(int folder) {
  int copy = dup(folder);
  DIR *dir = copy < 0 ? NULL : fdopendir(copy);
  const struct dirent *d;
  while (dir && (d = readdir(dir))) {
    unlinkat(folder, d->d_name, 0); /* "." and ".." are refused */
  }
  if (dir) {
    closedir(dir);
  } else {
    shard_file_close(copy);
  }
}

static void remove_dead(const char *parent) {
  DIR *dir = opendir(parent);
  const struct dirent *d;
  struct stat st;
  while (dir && (d = readdir(dir))) {
    if (strncmp(d->d_name, PREFIX, strlen(PREFIX)) != 0) {
      continue;
    }
    int folder = open_folder(dirfd(dir), d->d_name);
    if (folder >= 0 && fstat(folder, &st) == 0 && st.st_uid == geteuid() &&
        flock(folder, LOCK_EX | LOCK_NB) == 0) {
      empty(folder);
      unlinkat(dirfd(dir), d->d_name, AT_REMOVEDIR);
    }
    shard_file_close(folder);
  }
  if (dir) {
    closedir(dir);
  }
}

/* Lock the new folder. Returns false if another shardctl has removed it before it was locked. */
static bool lock_folder(struct ctl_scratch *scratch) {
  struct stat st;
  scratch->lock = open_folder(AT_FDCWD, scratch->path);
  bool taken =
      scratch->lock < 0 || (flock(scratch->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK);
  return !taken && stat(scratch->path, &st) == 0;
}

const char *ctl_scratch_parent(void) {
  const char *parent = getenv("TMPDIR");
  return parent && *parent ? parent : "/tmp";
}

int ctl_scratch_make(struct ctl_scratch *scratch) {
  const char *at = ctl_scratch_parent();
  remove_dead(at);
  for (int tries = 0; tries < 100; tries++) {
    scratch->lock = -1;
    if (asprintf(&scratch->path, "%s/" PREFIX "XXXXXX", at) < 0) {
      scratch->path = NULL;
      return ctl_fail("out of memory");
    }
    if (!mkdtemp(scratch->path)) {
      break;
    }
    if (lock_folder(scratch)) {
      return CTL_DONE;
    }
    shard_file_close(scratch->lock);
    free(scratch->path);
    scratch->path = NULL;
    errno = EBUSY;
  }
  ctl_fail("cannot make '%.300s': %s; set TMPDIR to a folder with room",
           scratch->path ? scratch->path : at, strerror(errno));
  free(scratch->path);
  scratch->path = NULL;
  return CTL_FAILED;
}

void ctl_scratch_remove(struct ctl_scratch *scratch) {
  if (scratch->path) {
    empty(scratch->lock);
    rmdir(scratch->path);
    close(scratch->lock);
    free(scratch->path);
    scratch->path = NULL;
  }
}
