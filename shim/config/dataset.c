/* SPDX-License-Identifier: MIT */
#include "config/dataset.h"

#include <stdio.h>
#include <string.h>

#include "base/path.h"

#define SCHEME "s3://"

const char *shard_dataset_next(const char *list, struct shard_dataset_item *out) {
  static const char mark[] = "=" SCHEME;
  const char *p = list + strspn(list, ":");
  size_t n = strcspn(p, ":");
  *out = (struct shard_dataset_item){.path = p, .path_length = n};
  /* The colon of "=s3:" does not end the item. */
  if (n >= 3 && strncmp(p + n - 3, mark, strlen(mark)) == 0) {
    out->path_length = n - 3;
    out->url = p + n - 2;
    out->url_length = 3 + strcspn(p + n + 1, ":");
    n = (size_t)(out->url - p) + out->url_length;
  }
  return n > 0 ? p + n : NULL;
}

const char *shard_dataset_fault(const char *list) {
  struct shard_dataset_item item;
  bool after_url = false;
  const char *p = list;
  for (size_t i = 0; (p = shard_dataset_next(p, &item)); i++) {
    if (item.path_length == 0 ||
        (item.path_length == 2 && strncmp(item.path, SCHEME, strlen(SCHEME)) == 0)) {
      return "needs the directory that stands for the bucket, as in /mnt/train=s3://bucket/train";
    }
    if (after_url && *item.path != '/') {
      return "has a prefix with a ':', which cannot be; a dataset that follows a prefix begins "
             "with "
             "'/'";
    }
    after_url = item.url;
  }
  return list[strspn(list, ":")] ? NULL : "names no directory";
}

bool shard_dataset_is_relative(const char *list) {
  struct shard_dataset_item item;
  while ((list = shard_dataset_next(list, &item))) {
    if (*item.path != '/') {
      return true;
    }
  }
  return false;
}

size_t shard_dataset_make_absolute(const char *list, const char *directory, char *buf,
                                   size_t size) {
  struct shard_dataset_item item;
  size_t used = 0;
  while ((list = shard_dataset_next(list, &item)) && used < size) {
    bool relative = *item.path != '/';
    int n = snprintf(buf + used, size - used, "%s%s%s%.*s", used > 0 ? ":" : "",
                     relative ? directory : "", relative ? "/" : "", (int)(list - item.path),
                     item.path);
    used += n < 0 ? size : (size_t)n;
  }
  return used;
}

const char *shard_dataset_inside(const char *inner, const char *outer) {
  const char *rest = shard_path_below(inner, outer);
  return rest && *rest ? rest : NULL;
}

size_t shard_dataset_find_inside(const char *const *roots, size_t count, size_t outer,
                                 const char **inside, size_t most) {
  size_t found = 0;
  for (size_t i = 0; i < count && found < most; i++) {
    const char *rest = i != outer && roots[i] ? shard_dataset_inside(roots[i], roots[outer]) : NULL;
    if (rest) {
      inside[found++] = rest;
    }
  }
  return found;
}
