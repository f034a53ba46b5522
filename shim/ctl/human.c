/* SPDX-License-Identifier: MIT */
#include "ctl/human.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "ctl/ctl.h"

struct ctl_human ctl_human_bytes(double bytes) {
  struct ctl_human out;
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
    bytes /= 1000;
    unit++;
  }
  snprintf(out.text, sizeof(out.text), "%.*f %s", unit > 0 && bytes < 99.95, bytes, units[unit]);
  return out;
}

struct ctl_human ctl_human_count(uint64_t count) {
  struct ctl_human out;
  char digits[24];
  int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count), k = 0;
  for (int i = 0; i < n; i++) {
    if (i > 0 && (n - i) % 3 == 0) {
      out.text[k++] = ',';
    }
    out.text[k++] = digits[i];
  }
  out.text[k] = 0;
  return out;
}

void ctl_human_line(const char *format, ...) {
  char *text;
  va_list args;
  va_start(args, format);
  int length = vasprintf(&text, format, args);
  va_end(args);
  if (length < 0) {
    ctl_fail("out of memory");
    return;
  }
  for (const char *p = text; *p;) {
    size_t n = *p == '\\' ? 0 : shard_utf8_printable(p);
    if (n > 0) {
      fwrite(p, 1, n, stdout);
    } else {
      printf("\\x%02x", (unsigned char)*p);
    }
    p += n ? n : 1;
  }
  putchar('\n');
  free(text);
}
