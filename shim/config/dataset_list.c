/* SPDX-License-Identifier: MIT */
#include "config/dataset_list.h"

#include <stdio.h>
#include <string.h>

#define SCHEME "s3://"

bool shard_dataset_list_is_url(const char *text) {
  return strncmp(text, SCHEME, strlen(SCHEME)) == 0 || strncmp(text, "gs://", 5) == 0;
}

const char *shard_dataset_list_next(const char *list, struct shard_dataset_item *out) {
  static const char mark[] = "=" SCHEME;
  const char *p = list + strspn(list, ":");
  size_t n = strcspn(p, ":");
  *out = (struct shard_dataset_item){.path = p, .path_length = n};
  /* The colon of "s3:" does not end an item. */
  if (shard_dataset_list_is_url(p)) {
    out->path_length = 0;
    out->url = p;
  } else if (n >= 3 && strncmp(p + n - 3, mark, strlen(mark)) == 0) {
    out->path_length = n - 3;
    out->url = p + n - 2;
  }
  if (out->url) {
    out->url_length = 3 + strcspn(out->url + 3, ":");
    n = (size_t)(out->url - p) + out->url_length;
  }
  return n > 0 ? p + n : NULL;
}

/* Returns whether the URL of an item has a bucket's name. */
static bool names_bucket(const struct shard_dataset_item *item) {
  return item->url_length > 5 && item->url[5] != '/';
}

/* Returns whether an item and the next item come from "s3:/bucket", where a slash is missing. */
static bool lacks_slash(const struct shard_dataset_item *item) {
  size_t n = item->path_length;
  const char *end = item->path + n;
  return !item->url && n >= 2 && strncmp(end, ":/", 2) == 0 &&
         (memcmp(end - 2, "s3", 2) == 0 || memcmp(end - 2, "gs", 2) == 0) &&
         (n == 2 || end[-3] == '=');
}

/* Returns whether all keys below URL b are also below URL a. */
static bool contains(const struct shard_dataset_item *a, const struct shard_dataset_item *b) {
  size_t n = a->url_length;
  while (n > 5 && a->url[n - 1] == '/') {
    n--;
  }
  return n <= b->url_length && memcmp(a->url, b->url, n) == 0 &&
         (n == b->url_length || b->url[n] == '/');
}

/* Returns whether two buckets without a directory have keys in common. */
static bool overlaps(const char *list) {
  struct shard_dataset_item a, b;
  for (const char *p = list; (p = shard_dataset_list_next(p, &a));) {
    for (const char *q = p; (q = shard_dataset_list_next(q, &b));) {
      if (shard_dataset_item_is_bucket(&a) && shard_dataset_item_is_bucket(&b) &&
          (contains(&a, &b) || contains(&b, &a))) {
        return true;
      }
    }
  }
  return false;
}

const char *shard_dataset_list_fault(const char *list) {
  struct shard_dataset_item item;
  bool after_url = false;
  const char *p = list;
  for (size_t i = 0; (p = shard_dataset_list_next(p, &item)); i++) {
    bool bucket = shard_dataset_item_is_bucket(&item);
    if (!bucket && item.path_length == 0) {
      return "lacks the directory that stands for the bucket, as in /mnt/train=s3://bucket/train";
    }
    if (lacks_slash(&item)) {
      return "has one slash after s3: or gs:; write s3://bucket/prefix, or ./s3 for a directory "
             "of that name";
    }
    if (!bucket && strncmp(item.path + item.path_length, "://", 3) == 0 && !item.url &&
        !memchr(item.path, '/', item.path_length)) {
      return "has a URL that is neither s3:// nor gs://; for other URLs, shardctl ls --uri --rank "
             "R "
             "--size P prints a rank's share";
    }
    if (bucket && !names_bucket(&item)) {
      return "names no bucket; write s3://bucket/prefix";
    }
    if (after_url && !bucket && *item.path != '/') {
      return "has a prefix with a ':', which is not supported; a dataset that follows a prefix "
             "must "
             "begin with '/', s3:// or gs://";
    }
    after_url = item.url;
  }
  if (overlaps(list)) {
    return "has a prefix twice, or a prefix inside another; name one of the two";
  }
  return list[strspn(list, ":")] ? NULL : "names no directory";
}

bool shard_dataset_list_has(const char *list, bool bucket) {
  struct shard_dataset_item item;
  while ((list = shard_dataset_list_next(list, &item))) {
    if (shard_dataset_item_is_bucket(&item) == bucket) {
      return true;
    }
  }
  return false;
}

static bool is_relative(const struct shard_dataset_item *item) {
  return !shard_dataset_item_is_bucket(item) && *item->path != '/';
}

size_t shard_dataset_list_make_absolute(const char *list, const char *directory, char *buf,
                                        size_t size) {
  struct shard_dataset_item item;
  size_t used = 0;
  while ((list = shard_dataset_list_next(list, &item)) && used < size) {
    bool relative = is_relative(&item);
    int n = snprintf(buf + used, size - used, "%s%s%s%.*s", used > 0 ? ":" : "",
                     relative ? directory : "", relative ? "/" : "", (int)(list - item.path),
                     item.path);
    used += n < 0 ? size : (size_t)n;
  }
  return used;
}
