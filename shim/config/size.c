/* SPDX-License-Identifier: MIT */
#include "config/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool shard_size_parse(const char *text, uint64_t *bytes) {
  static const char units[] = "KMGT";
  char *end;
  errno = 0;
  unsigned long long n = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || errno) {
    return false;
  }
  unsigned shift = 0;
  if (*end) {
    const char *unit = strchr(units, *end & ~0x20);
    if (!unit || (end[1] && strcasecmp(end + 1, "iB") != 0 && strcasecmp(end + 1, "B") != 0)) {
      return false;
    }
    shift = 10 * (unsigned)(unit - units + 1);
  }
  if (n > UINT64_MAX >> shift) {
    return false;
  }
  *bytes = (uint64_t)n << shift;
  return true;
}
