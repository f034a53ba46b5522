/* SPDX-License-Identifier: MIT */
/* message.c - what shardctl says to people: one line at a time, in one write. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ctl/ctl.h"

#define WHO "shardctl: "

static void say(const char *mark, const char *format, va_list args) {
  char text[2 * PATH_MAX + 500], line[4 * sizeof(text) + 64];
  size_t used = (size_t)snprintf(line, sizeof(line), "%s", mark);
  vsnprintf(text, sizeof(text), format, args);
  used += shard_error_escape(text, line + used, sizeof(line) - used - 1);
  line[used++] = '\n';
  line[used] = 0;
  fputs(line, stderr);
}

int ctl_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  say(WHO, format, args);
  va_end(args);
  return CTL_FAILED;
}

int ctl_usage(const char *format, ...) {
  va_list args;
  va_start(args, format);
  say(WHO, format, args);
  va_end(args);
  return CTL_USAGE;
}

void ctl_warn(const char *format, ...) {
  va_list args;
  va_start(args, format);
  say(SHARD_ERROR_WARNING, format, args);
  va_end(args);
}

void ctl_note(const char *format, ...) {
  va_list args;
  va_start(args, format);
  say(WHO, format, args);
  va_end(args);
}
