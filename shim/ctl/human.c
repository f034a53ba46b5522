/* SPDX-License-Identifier: MIT */
#include "ctl/human.h"

#include <stdbool.h>

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

size_t ctl_human_character(const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  size_t n = *p < 0x80                 ? 1
             : *p >= 0xc2 && *p < 0xe0 ? 2
             : *p >= 0xe0 && *p < 0xf0 ? 3
             : *p >= 0xf0 && *p < 0xf5 ? 4
                                       : 0;
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80) {
      return 0;
    }
  }
  if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) ||
      (*p == 0xf4 && p[1] > 0x8f)) {
    return 0;
  }
  return n;
}

size_t ctl_human_plain(const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  bool controls = *p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0);
  return controls ? 0 : ctl_human_character(text);
}

void ctl_human_text(FILE *out, const char *text) {
  for (const char *p = text; *p;) {
    size_t n = *p == '\\' ? 0 : ctl_human_plain(p);
    if (n > 0) {
      fwrite(p, 1, n, out);
    } else {
      fprintf(out, "\\x%02x", (unsigned char)*p);
    }
    p += n ? n : 1;
  }
}
