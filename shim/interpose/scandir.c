/* SPDX-License-Identifier: MIT */
/*
 * scandir.c - scandir and its family, on our own opendir and readdir.
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

#include "host/real.h"
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
  if (scan->count == scan->room) {
    size_t room = scan->room ? 2 * scan->room : 16;
    struct dirent **more =
        (struct dirent **)reallocarray((void *)scan->entries, room, sizeof(void *));
    if (!more) {
      return ENOMEM;
    }
    scan->entries = more;
    scan->room = room;
  }
  struct dirent *copy = malloc(entry->d_reclen);
  if (!copy) {
    return ENOMEM;
  }
  scan->entries[scan->count++] = memcpy(copy, entry, entry->d_reclen);
  return 0;
}

/* All entries wanted of the directory. 0 or an errno. */
static int collect_entries(struct scan *scan, selector *wanted) {
  for (;;) {
    errno = 0;
    const struct dirent *entry = readdir(scan->dir);
    if (!entry) {
      return errno;
    }
    if (!wanted || wanted(entry)) {
      int error = keep_entry(scan, entry);
      if (error != 0) {
        return error;
      }
    }
  }
}

/* What the calls do once the directory is open; errno was `saved` before. */
static int scan_stream(DIR *dir, struct dirent ***list, selector *wanted, comparer *compare,
                       int saved) {
  if (!dir) {
    return -1;
  }
  struct scan scan = {.dir = dir};
  int error;
  pthread_cleanup_push(free_scan, &scan);
  error = collect_entries(&scan, wanted);
  if (error == 0 && compare && scan.count > 0) {
    qsort((void *)scan.entries, scan.count, sizeof(void *),
          (int (*)(const void *, const void *))compare);
  }
  pthread_cleanup_pop(0);
  if (error != 0) {
    free_scan(&scan);
    errno = error;
    return -1;
  }
  closedir(dir);
  *list = scan.entries;
  errno = saved;
  return (int)scan.count;
}

static DIR *open_at(int at, const char *name) {
  int fd = openat(at, name, O_RDONLY | O_NONBLOCK | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return NULL;
  }
  DIR *dir = fdopendir(fd);
  if (!dir) {
    int error = errno;
    close(fd);
    errno = error;
  }
  return dir;
}

SHARD_EXPORT int scandir(const char *restrict name, struct dirent ***restrict list,
                         selector *wanted, comparer *compare) {
  if (!shard_view_active()) {
    return shard_real()->scandir(name, list, wanted, compare);
  }
  int saved = errno;
  return scan_stream(opendir(name), list, wanted, compare, saved);
}

SHARD_EXPORT int scandirat(int at, const char *restrict name, struct dirent ***restrict list,
                           selector *wanted, comparer *compare) {
  if (!shard_view_active()) {
    return shard_real()->scandirat(at, name, list, wanted, compare);
  }
  int saved = errno;
  return scan_stream(open_at(at, name), list, wanted, compare, saved);
}

SHARD_ALIAS(scandir64, scandir);
SHARD_ALIAS(scandirat64, scandirat);
