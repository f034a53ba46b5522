/* SPDX-License-Identifier: MIT */
#include "config/listings.h"

#include <limits.h>
#include <string.h>

#include "config/pattern.h"

#define SCHEME "s3://"

/* Whether colons separate nothing: it is the ranks' own, or a manifest. */
static bool is_whole(const char *list) {
  return shard_pattern_is_manifest(list) || shard_pattern_has(list, 'r') ||
         shard_pattern_has(list, 'e');
}

bool shard_listings_is_object(const char *text) {
  return strncmp(text, SCHEME, strlen(SCHEME)) == 0;
}

const char *shard_listings_next(const char *list, struct shard_listings_item *out) {
  if (is_whole(list)) {
    *out = (struct shard_listings_item){list, strlen(list)};
    return *list ? list + out->length : NULL;
  }
  const char *p = list + strspn(list, ":");
  size_t n = shard_listings_is_object(p) ? strlen(SCHEME)
                                         : 0; /* the colon of "s3:" does not end the item */
  while (p[n] && p[n] != ':') {
    n += p[n] == '%' && p[n + 1] ? 2 : 1;
  }
  *out = (struct shard_listings_item){p, n};
  return n > 0 ? p + n : NULL;
}

bool shard_listings_are_several(const char *list) {
  struct shard_listings_item item;
  const char *rest = shard_listings_next(list, &item);
  return rest && shard_listings_next(rest, &item);
}

const char *shard_listings_fault(const char *list) {
  char expanded[PATH_MAX];
  struct shard_listings_item item;
  bool after_object = false;
  if (shard_pattern_has(list, 'd')) {
    return "has %d, which stands for nothing any more; name each dataset's listing, separated by "
           "':'";
  }
  if (is_whole(list)) {
    return shard_pattern_expand(list, 0, 0, expanded, sizeof(expanded)) < 0 ? "" : NULL;
  }
  for (const char *p = list; (p = shard_listings_next(p, &item));) {
    bool object = shard_listings_is_object(item.text);
    if (shard_pattern_expand_item(item.text, item.length, expanded, sizeof(expanded)) < 0) {
      return "";
    }
    if (shard_pattern_names_manifest(item.text, item.length)) {
      return "has a manifest beside other files; a manifest goes alone";
    }
    if (item.length == 2 && strncmp(item.text, "gs://", 5) == 0) {
      return "names an object by gs://; write s3://bucket/key, and set the endpoint";
    }
    if (object && item.text[item.length - 1] == '/') {
      return "names a folder of a bucket, which is not looked through; name objects, "
             "s3://bucket/key";
    }
    if (after_object && !object && *item.text != '/') {
      return "has a key with a ':', or a relative path behind an object; write %: for a colon";
    }
    after_object = object;
  }
  return list[strspn(list, ":")] ? NULL : "names no file";
}

static bool is_relative(const struct shard_listings_item *item) {
  return *item->text != '/' && !shard_listings_is_object(item->text);
}

/* Print text[length] behind buf[used], as far as it fits. Returns what is used then. */
static size_t append(const char *text, size_t length, char *buf, size_t size, size_t used) {
  for (size_t i = 0; i < length; i++, used++) {
    if (used + 1 < size) {
      buf[used] = text[i];
      buf[used + 1] = 0;
    }
  }
  return used;
}

/* The same for a directory and a slash: what means something in a list is written as it must be. */
static size_t append_directory(const char *path, bool whole, char *buf, size_t size, size_t used) {
  for (const char *p = path; *p; p++) {
    used = *p == '%' || (*p == ':' && !whole) ? append("%", 1, buf, size, used) : used;
    used = append(p, 1, buf, size, used);
  }
  return append("/", 1, buf, size, used);
}

size_t shard_listings_make_absolute(const char *list, const char *directory, char *buf,
                                    size_t size) {
  struct shard_listings_item item;
  bool whole = is_whole(list);
  size_t used = 0;
  while ((list = shard_listings_next(list, &item))) {
    used = used > 0 ? append(":", 1, buf, size, used) : used;
    used = is_relative(&item) ? append_directory(directory, whole, buf, size, used) : used;
    used = append(item.text, item.length, buf, size, used);
  }
  return used;
}
