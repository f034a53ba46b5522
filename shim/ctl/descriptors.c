/* SPDX-License-Identifier: MIT */
#include "ctl/descriptors.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436 /* on all of Linux's architectures but Alpha */
#endif

#define MOST 1048576 /* fs.nr_open, unless somebody has raised it */

/* One number after the other. */
static void close_each(int first) {
  struct rlimit limit = {0, 0};
  /* A soft limit may have been lowered below what is open. */
  bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < MOST;
  int end = known ? (int)limit.rlim_max : MOST;
  for (int fd = first; fd < end; fd++) {
    close(fd);
  }
}

void ctl_close_from(int first, bool each) {
  int saved = errno;
  if (each || syscall(SYS_close_range, (unsigned)first, ~0U, 0U) != 0) {
    close_each(first);
  }
  errno = saved;
}
