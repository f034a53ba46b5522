/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

size_t shard_error_escape(const char *text, char *buf, size_t size) {
  size_t used = 0;
  for (const unsigned char *p = (const unsigned char *)text; *p && used + 9 <= size; p++) {
    bool c1 = p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0; /* in UTF-8 */
    if (c1) {
      used += (size_t)sprintf(buf + used, "\\x%02x", *p++);
    }
    if (c1 || *p < 0x20 || *p == 0x7f) {
      used += (size_t)sprintf(buf + used, "\\x%02x", *p);
    } else {
      buf[used++] = (char)*p;
    }
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
