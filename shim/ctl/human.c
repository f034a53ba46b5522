/* SPDX-License-Identifier: MIT */
#include "ctl/human.h"

#include <stdbool.h>

#include "base/plain.h"

const char *ctl_human_bytes(double bytes, char buf[CTL_HUMAN]) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
    bytes /= 1000;
    unit++;
  }
  snprintf(buf, CTL_HUMAN, "%.*f %s", unit > 0 && bytes < 99.95, bytes, units[unit]);
  return buf;
}

const char *ctl_human_age(double seconds, char buf[CTL_HUMAN]) {
  bool days = seconds >= 48 * 3600, hours = seconds >= 2 * 3600, minutes = seconds >= 120;
  double unit = days ? 24 * 3600 : hours ? 3600 : minutes ? 60 : 1;
  snprintf(buf, CTL_HUMAN, "%.0f %s", seconds < 0 ? 0 : seconds / unit,
           days      ? "d"
           : hours   ? "h"
           : minutes ? "min"
                     : "s");
  return buf;
}

const char *ctl_human_count(uint64_t count, char buf[CTL_HUMAN]) {
  char digits[CTL_HUMAN];
  int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count), k = 0;
  for (int i = 0; i < n; i++) {
    if (i > 0 && (n - i) % 3 == 0) {
      buf[k++] = ',';
    }
    buf[k++] = digits[i];
  }
  buf[k] = 0;
  return buf;
}

void ctl_human_text(FILE *out, const char *text) {
  for (const char *p = text; *p;) {
    size_t n = *p == '\\' ? 0 : shard_plain(p);
    if (n > 0) {
      fwrite(p, 1, n, out);
    } else {
      fprintf(out, "\\x%02x", (unsigned char)*p);
    }
    p += n ? n : 1;
  }
}
