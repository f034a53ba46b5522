/* SPDX-License-Identifier: MIT */
/*
 * scandir.c - wraps scandir and its family.
 *
 * libc's versions read the directory inside libc, past libshard's readdir. While the view is
 * active, the work is done here, by libshard's readdir, with the entries, errors and errno of
 * libc's versions.
 *
 * This file is also the template of a wrapper. To wrap another call NAME:
 *   1  add a row CALL(NAME, LISTING) to host/exports.def. From the row come shard_real()->NAME,
 *      which is libc's function, and the exported symbol.
 *   2  write SHARD_EXPORT and the prototype of libc's header. If NAME64 is the same function on
 *      this architecture, assert that its types have one size, and add SHARD_ALIAS(NAME64, NAME)
 *      and a row ALIAS.
 *   3  begin with the way past libshard: while no view is active (shard_view_active(), two loads),
 *      the call is libc's.
 *   4  read directories by shard_dir_open() and shard_dir_next() alone: these give what the
 *      program may see. A failure of libshard comes as an errno of libshard(7), ERRORS: pass the
 *      errno on, and never end the process or print.
 *   5  keep errno on success, as libc does. If the caller's functions run in between, a thread may
 *      be cancelled there, or call the same wrapper again: free by pthread_cleanup_push(), and keep
 *      no static state.
 *   6  add the call to tests/programs/calls.c or patterns.c, which compare it with libc's, and to
 *      libshard(7), WHAT IT CHANGES INSIDE THE PROCESS. tests/docs/drift.py tells what is missing.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
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

/* Frees a scan; also a cleanup handler, if the thread is cancelled in the caller's functions. */
static void free_scan(void *arg) {
  struct scan *scan = arg;
  for (size_t i = 0; i < scan->count; i++) {
    free(scan->entries[i]);
  }
  free((void *)scan->entries);
  closedir(scan->dir);
}

/* Keeps a copy of an entry, as long as the directory's record. Returns 0 or a positive errno. */
static int keep_entry(struct scan *scan, const struct dirent *entry) {
  struct dirent **entries = (struct dirent **)shard_array_grow((void *)scan->entries, scan->count,
                                                               1, &scan->room, sizeof(void *));
  struct dirent *copy = malloc(entry->d_reclen);
  scan->entries = entries ? entries : scan->entries;
  if (!entries || !copy) {
    free(copy);
    return ENOMEM;
  }
  scan->entries[scan->count++] = memcpy(copy, entry, entry->d_reclen);
  return 0;
}

/* Collects the entries that the caller wants. Returns 0 or a positive errno. */
static int collect_entries(struct scan *scan, selector *wanted) {
  const struct dirent *entry;
  int error = 0, rc;
  errno = 0; /* libc calls the caller's function with errno 0 */
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
  if (!shard_view_active()) { /* step 3 */
    return shard_real()->scandirat(at, name, list, wanted, compare);
  }
  int saved = errno, error;
  struct scan scan = {.dir = shard_dir_open(at, name)}; /* step 4 */
  if (!scan.dir) {
    return -1;
  }
  pthread_cleanup_push(free_scan, &scan); /* step 5 */
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
