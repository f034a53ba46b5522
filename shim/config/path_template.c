/* SPDX-License-Identifier: MIT */
#include "config/path_template.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Prints the first `length` bytes of a template, with values[i] for % and letters[i]. Returns as
 * shard_path_template_expand().
 */
static ssize_t expand(const char *pattern, size_t length, const char *letters,
                      const char *const *values, char *buf, size_t size) {
  size_t used = 0;
  for (const char *p = pattern; p < pattern + length; p++) {
    const char *from = p;
    size_t n = 1;
    if (*p == '%') {
      const char *letter = ++p < pattern + length ? strchr(letters, *p) : NULL;
      if (!letter) {
        return -EINVAL;
      }
      from = values[letter - letters];
      n = strlen(from);
    }
    if (n >= size - used) {
      return -ENAMETOOLONG;
    }
    memcpy(buf + used, from, n);
    used += n;
  }
  if (size > 0) {
    buf[used] = 0;
  }
  return (ssize_t)used;
}

ssize_t shard_path_template_expand(const char *pattern, uint64_t rank, uint64_t epoch, char *buf,
                                   size_t size) {
  char numbers[2][24];
  snprintf(numbers[0], sizeof(numbers[0]), "%llu", (unsigned long long)rank);
  snprintf(numbers[1], sizeof(numbers[1]), "%llu", (unsigned long long)epoch);
  return expand(pattern, strlen(pattern), "%re", (const char *[]){"%", numbers[0], numbers[1]}, buf,
                size);
}

ssize_t shard_path_template_expand_item(const char *item, size_t length, char *buf, size_t size) {
  return expand(item, length, "%:", (const char *[]){"%", ":"}, buf, size);
}

bool shard_path_template_has(const char *pattern, char letter) {
  for (const char *p = pattern; *p; p++) {
    if (*p == '%' && (*++p == letter || !*p)) {
      return *p == letter;
    }
  }
  return false;
}

const char *shard_path_template_manifest_suffix(const char *file, size_t n) {
  static const char *const ends[] = {".txt", ".txt.gz", ".txt.zst"};
  for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
    size_t k = strlen(ends[i]);
    if (n >= k && memcmp(file + n - k, ends[i], k) == 0) {
      return ends[i];
    }
  }
  return NULL;
}

bool shard_path_template_is_manifest(const char *file) {
  return shard_path_template_manifest_suffix(file, strlen(file)) != NULL;
}
