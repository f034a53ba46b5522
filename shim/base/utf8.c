/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"

#include <stdbool.h>

size_t shard_utf8_character(const char *text) {
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

size_t shard_utf8_printable(const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  bool controls = *p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0);
  return controls ? 0 : shard_utf8_character(text);
}
