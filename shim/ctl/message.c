/* SPDX-License-Identifier: MIT */
/* message.c - what shardctl says to people: one line at a time, in one write. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "build/progress.h"
#include "ctl/ctl.h"

int ctl_say(int rc, const char *mark, const char *format, ...) {
  char text[2 * PATH_MAX + 500], line[4 * sizeof(text) + 64];
  size_t used = (size_t)snprintf(line, sizeof(line), "%s", mark);
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  used += shard_error_escape(text, line + used, sizeof(line) - used - 1);
  line[used++] = '\n';
  line[used] = 0;
  shard_progress_clear();
  fputs(line, stderr);
  return rc;
}
