/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

int shard_error_set(char *err, size_t size, int rc, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(err, size, format, args);
  va_end(args);
  return rc;
}
