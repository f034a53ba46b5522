/* SPDX-License-Identifier: MIT */
#include "ctl/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436 /* on all of Linux's architectures but Alpha */
#endif

#define MOST 1048576 /* fs.nr_open, unless somebody has raised it */

static bool close_by_range(int first) {
  return syscall(SYS_close_range, (unsigned)first, ~0U, 0U) == 0;
}

/* The folder is read again from its start until there is nothing left to close. */
static bool close_by_proc(int first) {
  close(first); /* so that there is a number left for the folder */
  DIR *folder = opendir("/proc/self/fd");
  bool found = folder != NULL;
  while (found) {
    const struct dirent *entry;
    found = false;
    rewinddir(folder);
    while ((entry = readdir(folder))) {
      char *end;
      long fd = strtol(entry->d_name, &end, 10);
      if (!*end && end != entry->d_name && fd >= first && fd != dirfd(folder)) {
        found = close((int)fd) == 0 || found;
      }
    }
  }
  return folder && closedir(folder) == 0;
}

static void close_by_number(int first) {
  struct rlimit limit = {0, 0};
  /* A soft limit may have been lowered below what is open. */
  bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < MOST;
  int end = known ? (int)limit.rlim_max : MOST;
  for (int fd = first; fd < end; fd++) {
    close(fd);
  }
}

void ctl_close_from(int first, unsigned without) {
  int saved = errno;
  if ((without > 0 || !close_by_range(first)) && (without > 1 || !close_by_proc(first))) {
    close_by_number(first);
  }
  errno = saved;
}
