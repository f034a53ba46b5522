/* SPDX-License-Identifier: MIT */
#include "base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool shard_number_parse(const char *text, uint64_t least, uint64_t most, uint64_t *number) {
  char *end;
  errno = 0;
  *number = strtoull(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *number >= least && *number <= most;
}

bool shard_size_parse(const char *text, uint64_t *bytes) {
  static const char letters[] = "KMGT";
  char *end;
  errno = 0;
  unsigned long long n = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || errno) {
    return false;
  }
  uint64_t unit = 1;
  if (*end) {
    const char *letter = strchr(letters, *end++);
    bool decimal = strcmp(end, "B") == 0;
    if (!letter || (*end && !decimal && strcmp(end, "iB") != 0)) {
      return false;
    }
    for (const char *p = letters; p <= letter; p++) {
      unit *= decimal ? 1000 : 1024;
    }
  }
  if (n > INT64_MAX / unit) {
    return false;
  }
  *bytes = (uint64_t)n * unit;
  return true;
}
