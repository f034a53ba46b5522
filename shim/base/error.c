/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

size_t shard_error_escape(const char *text, char *buf, size_t size) {
  size_t used = 0;
  for (const char *p = text; *p && used + 5 <= size;) {
    size_t n = shard_utf8_printable(p);
    memcpy(buf + used, p, n);
    used += n ? n : (size_t)sprintf(buf + used, "\\x%02x", (unsigned char)*p);
    p += n ? n : 1;
  }
  buf[used] = 0;
  return used;
}

int shard_error_set(char *err, size_t size, int rc, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(err, size, format, args);
  va_end(args);
  return rc;
}
