/* SPDX-License-Identifier: MIT */
#include "listing/markers.h"

#include <stdbool.h>
#include <string.h>

#include "listing/codec.h"
#include "listing/options.h"

/* A directory's name; or a file's: how it begins, a part behind that, and the name of the directory
 * that it lies in, which then lies in the table. */
static const struct marker {
  const char *format, *directory, *begin, *part;
} markers[] = {
    {"Delta Lake", "_delta_log", NULL, NULL}, {"Lance", "_versions", NULL, NULL},
    {"TileDB", "__commits", NULL, NULL},      {"TileDB", "__fragments", NULL, NULL},
    {"Hudi", ".hoodie", NULL, NULL},          {"Iceberg", "metadata", "", ".metadata.json"},
    {"Lhotse Shar", NULL, "cuts.", ".jsonl"},
};

static bool is_word(const char *word, const char *at, size_t length) {
  return strlen(word) == length && memcmp(word, at, length) == 0;
}

/* The component of path that ends before `end`. Returns where it begins. */
static size_t component(const char *path, size_t end) { return shard_codec_basename(path, end); }

static bool fits(const struct marker *m, const char *path, size_t length, size_t *table) {
  size_t base = component(path, length), n = length - base;
  const char *name = path + base;
  *table = base ? base - 1 : 0;
  if (!m->begin) {
    return is_word(m->directory, name, n);
  }
  size_t begin = strlen(m->begin);
  if (n < begin || memcmp(name, m->begin, begin) != 0 ||
      !memmem(name + begin, n - begin, m->part, strlen(m->part))) {
    return false;
  }
  if (!m->directory) {
    return true;
  }
  size_t above = component(path, *table);
  bool inside = base > 0 && is_word(m->directory, path + above, *table - above);
  *table = above ? above - 1 : 0;
  return inside;
}

const char *shard_marker_find(const struct shard_options *o, const char *path, size_t length,
                              size_t *table) {
  const char *name = path + component(path, length);
  size_t n = length - (size_t)(name - path);
  /* Each name of each listing comes here, and nearly none begins or ends like a marker (.json,
   * .gz). */
  bool likely = n > 0 && (*name == '_' || *name == '.' || *name == 'c' || name[n - 1] == 'n' ||
                          name[n - 1] == 'z');
  for (size_t i = 0; likely && i < sizeof(markers) / sizeof(markers[0]); i++) {
    char copy[256] = "";
    if (n < sizeof(copy) && fits(&markers[i], path, length, table)) {
      memcpy(copy, name, n);
      return shard_options_match(o, copy, n) ? markers[i].format : NULL;
    }
  }
  return NULL;
}

const char *shard_marker_above(const struct shard_options *o, const char *path, size_t length,
                               size_t *table) {
  const char *format = NULL;
  for (size_t end = 0; !format && end < length; end++) {
    const char *slash = memchr(path + end, '/', length - end);
    end = slash ? (size_t)(slash - path) : length;
    format = shard_marker_find(o, path, end, table);
  }
  return format;
}
