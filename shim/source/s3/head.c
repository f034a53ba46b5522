/* SPDX-License-Identifier: MIT */
#include "source/s3/head.h"

#include <string.h>
#include <strings.h>

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool shard_s3_head_value(const char *line, size_t length, const char *name, char *value,
                         size_t size) {
  size_t begin = strlen(name);
  if (length <= begin || line[begin] != ':' || strncasecmp(line, name, begin) != 0) {
    return false;
  }
  begin++;
  while (begin < length && is_blank(line[begin])) {
    begin++;
  }
  while (length > begin && is_blank(line[length - 1])) {
    length--;
  }
  size_t n = length - begin < size ? length - begin : 0;
  memcpy(value, line + begin, n);
  value[n] = 0;
  return true;
}
