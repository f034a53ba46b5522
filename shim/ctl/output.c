/* SPDX-License-Identifier: MIT */
#include "ctl/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/ctl.h"

int ctl_output_open(const char *file, struct ctl_output *o) {
  o->file = file;
  if ((size_t)snprintf(o->temporary, sizeof(o->temporary), "%s.tmp.XXXXXX", file) >=
      sizeof(o->temporary)) {
    return ctl_fail("'%.300s...' is too long", file);
  }
  o->fd = mkostemp(o->temporary, O_CLOEXEC);
  if (o->fd < 0) {
    return ctl_fail("cannot write '%.300s': %s", file, strerror(errno));
  }
  flock(o->fd, LOCK_EX | LOCK_NB);
  return CTL_DONE;
}

int ctl_output_end(struct ctl_output *o, bool keep) {
  int rc = CTL_DONE;
  mode_t mask = umask(0);
  umask(mask);
  if (keep && (fchmod(o->fd, 0666 & ~mask) != 0 || fsync(o->fd) != 0 ||
               rename(o->temporary, o->file) != 0)) {
    rc = ctl_fail("cannot write '%.300s': %s", o->file, strerror(errno));
    keep = false;
  }
  if (!keep) {
    unlink(o->temporary);
  }
  close(o->fd);
  return rc;
}
