/* SPDX-License-Identifier: MIT */
#include "ctl/python.h"

#include <stdlib.h>
#include <string.h>

const char *ctl_python(void) {
  const char *python = getenv("PYTHON");
  return python && *python ? python : "python3";
}

bool ctl_python_clean_path(void) {
  const char *given = getenv("PYTHONPATH");
  if (!given || !*given) {
    return false;
  }
  char *kept = malloc(strlen(given) + 2), *to = kept;
  bool less = !kept;
  for (const char *p = given; kept && p; p = *p ? p + 1 : NULL) {
    size_t n = strcspn(p, ":");
    if (*p == '/') {
      *to++ = ':';
      memcpy(to, p, n);
      to += n;
    } else {
      less = true;
    }
    p += n;
  }
  if (less) {
    unsetenv("PYTHONPATH"); /* and so it stays if nothing is left */
  }
  if (less && to != kept) {
    *to = 0;
    setenv("PYTHONPATH", kept + 1, 1);
  }
  free(kept);
  return less;
}
