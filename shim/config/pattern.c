/* SPDX-License-Identifier: MIT */
#include "config/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

ssize_t shard_pattern_expand(const char *pattern, uint64_t rank, uint64_t epoch, char *buf,
                             size_t size) {
  size_t used = 0;
  for (const char *p = pattern; *p; p++) {
    int n;
    if (*p != '%') {
      n = snprintf(buf + used, size - used, "%c", *p);
    } else if (*++p == '%') {
      n = snprintf(buf + used, size - used, "%%");
    } else if (*p == 'r' || *p == 'e') {
      n = snprintf(buf + used, size - used, "%llu", (unsigned long long)(*p == 'r' ? rank : epoch));
    } else {
      return -EINVAL;
    }
    used += (size_t)n;
    if (used >= size) {
      return -ENAMETOOLONG;
    }
  }
  if (size > 0) {
    buf[used] = 0;
  }
  return (ssize_t)used;
}

ssize_t shard_pattern_expand_dataset(const char *pattern, size_t length, const char *dataset,
                                     char *buf, size_t size) {
  size_t used = 0;
  for (const char *p = pattern; p < pattern + length; p++) {
    const char *from = p;
    size_t n = 1;
    if (*p == '%') {
      from = ++p;
      if (p == pattern + length || !strchr("%:d", *p)) {
        return -EINVAL;
      }
      from = *p == 'd' ? dataset : from;
      n = *p == 'd' ? strlen(dataset) : 1;
    }
    if (n >= size - used) {
      return -ENAMETOOLONG;
    }
    memcpy(buf + used, from, n);
    used += n;
  }
  buf[used] = 0;
  return (ssize_t)used;
}

bool shard_pattern_has(const char *pattern, char letter) {
  for (const char *p = pattern; *p; p++) {
    if (*p == '%' && (*++p == letter || !*p)) {
      return *p == letter;
    }
  }
  return false;
}

const char *shard_pattern_manifest_suffix(const char *file) {
  static const char *const ends[] = {".txt", ".txt.gz", ".txt.zst"};
  size_t n = strlen(file);
  for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
    size_t k = strlen(ends[i]);
    if (n >= k && strcmp(file + n - k, ends[i]) == 0) {
      return ends[i];
    }
  }
  return NULL;
}

bool shard_pattern_is_manifest(const char *file) {
  return shard_pattern_manifest_suffix(file) != NULL;
}
