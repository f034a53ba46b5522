/* SPDX-License-Identifier: MIT */
/*
 * scandir.c - scandir and its family, on our own readdir.
 *
 * libc's versions read the directory inside libc, past our readdir. While the view is active they
 * are done here, with the entries, errors and errno of libc's.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "host/real.h"
#include "interpose/dir.h"
#include "view/view.h"

static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "scandir is scandir64");

typedef int selector(const struct dirent *);
typedef int comparer(const struct dirent **, const struct dirent **);

struct scan {
  DIR *dir;
  struct dirent **entries;
  size_t count, room;
};

/* Also the end of a thread that is cancelled in the caller's functions. */
static void free_scan(void *arg) {
  struct scan *scan = arg;
  for (size_t i = 0; i < scan->count; i++) {
    free(scan->entries[i]);
  }
  free((void *)scan->entries);
  closedir(scan->dir);
}

/* Keep a copy, which is as long as the directory's own record. 0 or an errno. */
static int keep_entry(struct scan *scan, const struct dirent *entry) {
  struct dirent **entries = (struct dirent **)shard_grow((void *)scan->entries, scan->count, 1,
                                                         &scan->room, sizeof(void *));
  struct dirent *copy = malloc(entry->d_reclen);
  scan->entries = entries ? entries : scan->entries;
  if (!entries || !copy) {
    free(copy);
    return ENOMEM;
  }
  scan->entries[scan->count++] = memcpy(copy, entry, entry->d_reclen);
  return 0;
}

/* All entries wanted of the directory. 0 or an errno. */
static int collect_entries(struct scan *scan, selector *wanted) {
  const struct dirent *entry;
  int error = 0, rc;
  errno = 0; /* that is how libc calls the caller's function */
  while (error == 0 && (rc = shard_dir_next(scan->dir, &entry)) != 0) {
    if (rc < 0) {
      error = errno;
    } else if (!wanted || wanted(entry)) {
      error = keep_entry(scan, entry);
    }
    errno = 0;
  }
  return error;
}

SHARD_EXPORT int scandirat(int at, const char *restrict name, struct dirent ***restrict list,
                           selector *wanted, comparer *compare) {
  if (!shard_view_active()) {
    return shard_real()->scandirat(at, name, list, wanted, compare);
  }
  int saved = errno, error;
  struct scan scan = {.dir = shard_dir_open(at, name)};
  if (!scan.dir) {
    return -1;
  }
  pthread_cleanup_push(free_scan, &scan);
  error = collect_entries(&scan, wanted);
  if (error == 0 && compare && scan.count > 0) {
    qsort((void *)scan.entries, scan.count, sizeof(void *),
          (int (*)(const void *, const void *))compare);
  }
  pthread_cleanup_pop(error != 0);
  if (error != 0) {
    errno = error;
    return -1;
  }
  closedir(scan.dir);
  *list = scan.entries;
  errno = saved;
  return (int)scan.count;
}
SHARD_ALIAS(scandirat64, scandirat);

SHARD_EXPORT int scandir(const char *restrict name, struct dirent ***restrict list,
                         selector *wanted, comparer *compare) {
  return shard_view_active() ? scandirat(AT_FDCWD, name, list, wanted, compare)
                             : shard_real()->scandir(name, list, wanted, compare);
}
SHARD_ALIAS(scandir64, scandir);
