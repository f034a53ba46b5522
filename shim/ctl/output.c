/* SPDX-License-Identifier: MIT */
#include "ctl/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "ctl/ctl.h"

static int cannot_write(const struct ctl_output *o, const char *why) {
  return ctl_fail("cannot write '%.300s': %s", o->whole.path, why);
}

int ctl_output_open(const char *file, enum shard_atomic_file_sync sync, struct ctl_output *o) {
  *o = (struct ctl_output){.whole = {.fd = -1, .path = file}};
  if (shard_atomic_file_may_replace(file) != 0) {
    return cannot_write(o, "it is not a regular file");
  }
  int rc = shard_atomic_file_open(&o->whole, file, SHARD_ATOMIC_FILE_UMASK, sync);
  if (rc != 0) {
    return cannot_write(o, strerror(-rc));
  }
  shard_atomic_file_temporary(&o->whole, o->temporary);
  return CTL_DONE;
}

int ctl_output_print(struct ctl_output *o, int (*print)(void *context, FILE *out), void *context) {
  int copy = fcntl(o->whole.fd, F_DUPFD_CLOEXEC, 0);
  FILE *out = copy < 0 ? NULL : fdopen(copy, "w");
  if (!out) {
    shard_file_close(copy);
    return cannot_write(o, strerror(errno));
  }
  int rc = print(context, out);
  errno = 0;
  bool failed = fflush(out) != 0 || ferror(out);
  int error = errno ? errno : EIO;
  if (fclose(out) != 0 && !failed) {
    failed = true;
    error = errno;
  }
  return rc == CTL_DONE && failed ? cannot_write(o, strerror(error)) : rc;
}

int ctl_output_end(struct ctl_output *o, bool keep) {
  if (!keep) {
    shard_atomic_file_abort(&o->whole);
    return CTL_DONE;
  }
  int rc = shard_atomic_file_publish(&o->whole);
  return rc == 0 ? CTL_DONE : cannot_write(o, strerror(-rc));
}
