/* SPDX-License-Identifier: MIT */
#include "config/listing_list.h"

#include <limits.h>
#include <string.h>

#include "config/path_template.h"

#define SCHEME "s3://"

/* Returns whether the value is one item: a manifest, or a path with %r or %e. */
static bool is_one_item(const char *list) {
  return shard_path_template_is_manifest(list) || shard_path_template_has(list, 'r') ||
         shard_path_template_has(list, 'e');
}

bool shard_listing_list_is_object(const char *text) {
  return strncmp(text, SCHEME, strlen(SCHEME)) == 0;
}

const char *shard_listing_list_next(const char *list, struct shard_listing_item *out) {
  if (is_one_item(list)) {
    *out = (struct shard_listing_item){list, strlen(list)};
    return *list ? list + out->length : NULL;
  }
  const char *p = list + strspn(list, ":");
  size_t n = shard_listing_list_is_object(p) ? strlen(SCHEME)
                                             : 0; /* the colon of "s3:" does not end an item */
  while (p[n] && p[n] != ':') {
    n += p[n] == '%' && p[n + 1] ? 2 : 1;
  }
  *out = (struct shard_listing_item){p, n};
  return n > 0 ? p + n : NULL;
}

const char *shard_listing_list_fault(const char *list) {
  char expanded[PATH_MAX];
  struct shard_listing_item item;
  bool after_object = false;
  if (shard_path_template_has(list, 'd')) {
    return "has %d, which is not supported any more; name each dataset's listing, separated by ':'";
  }
  if (is_one_item(list)) {
    return shard_path_template_expand(list, 0, 0, expanded, sizeof(expanded)) < 0 ? "" : NULL;
  }
  for (const char *p = list; (p = shard_listing_list_next(p, &item));) {
    bool object = shard_listing_list_is_object(item.text);
    if (shard_path_template_expand_item(item.text, item.length, expanded, sizeof(expanded)) < 0) {
      return "";
    }
    if (shard_path_template_manifest_suffix(item.text, item.length)) {
      return "has a manifest beside other files; name the manifest alone";
    }
    if (item.length == 2 && strncmp(item.text, "gs://", 5) == 0) {
      return "has a gs:// URL; write s3://bucket/key, and set the endpoint";
    }
    if (object && item.text[item.length - 1] == '/') {
      return "has a prefix that ends with '/', and prefixes are not searched; name objects, "
             "s3://bucket/key";
    }
    if (after_object && !object && *item.text != '/') {
      return "has a key with a ':', or a relative path after an object; write %: for a colon";
    }
    after_object = object;
  }
  return list[strspn(list, ":")] ? NULL : "names no file";
}

static bool is_relative(const struct shard_listing_item *item) {
  return *item->text != '/' && !shard_listing_list_is_object(item->text);
}

/* Appends text[length] to buf[used], as far as it fits. Returns the length with all of the text. */
static size_t append(const char *text, size_t length, char *buf, size_t size, size_t used) {
  for (size_t i = 0; i < length; i++, used++) {
    if (used + 1 < size) {
      buf[used] = text[i];
      buf[used + 1] = 0;
    }
  }
  return used;
}

/* Does the same for a directory and a slash, with %% and %: where a list needs them. */
static size_t append_directory(const char *path, bool one_item, char *buf, size_t size,
                               size_t used) {
  for (const char *p = path; *p; p++) {
    used = *p == '%' || (*p == ':' && !one_item) ? append("%", 1, buf, size, used) : used;
    used = append(p, 1, buf, size, used);
  }
  return append("/", 1, buf, size, used);
}

size_t shard_listing_list_make_absolute(const char *list, const char *directory, char *buf,
                                        size_t size) {
  struct shard_listing_item item;
  bool one_item = is_one_item(list);
  size_t used = 0;
  while ((list = shard_listing_list_next(list, &item))) {
    used = used > 0 ? append(":", 1, buf, size, used) : used;
    used = is_relative(&item) ? append_directory(directory, one_item, buf, size, used) : used;
    used = append(item.text, item.length, buf, size, used);
  }
  return used;
}
