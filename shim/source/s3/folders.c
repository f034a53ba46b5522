/* SPDX-License-Identifier: MIT */
#include "source/s3/folders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* The first one that is not before `name`; with `behind`, not equal to it either. */
static size_t find_first(const struct shard_s3_folders *f, const char *name, size_t n,
                         bool behind) {
  size_t low = 0, high = f->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = shard_codec_compare_bytes(f->list[middle].name, f->list[middle].length, name, n);
    if (order < 0 || (behind && order == 0)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

int shard_s3_folders_add(struct shard_s3_folders *f, const char *name, size_t n, bool open) {
  size_t at = find_first(f, name, n, false);
  if (at < f->count &&
      shard_codec_compare_bytes(f->list[at].name, f->list[at].length, name, n) == 0) {
    f->list[at].open = open;
    return 0;
  }
  if (f->count == SHARD_S3_FOLDERS_MOST || n > SHARD_S3_KEY_MAX) {
    return 0;
  }
  struct shard_s3_folder *list = shard_array_grow(f->list, f->count, 1, &f->room, sizeof(*list));
  char *copy = malloc(n);
  f->list = list ? list : f->list;
  if (!list || !copy) {
    free(copy);
    return -ENOMEM;
  }
  memcpy(copy, name, n);
  memmove(f->list + at + 1, f->list + at, (f->count - at) * sizeof(*f->list));
  f->list[at] = (struct shard_s3_folder){copy, (uint32_t)n, open};
  f->count++;
  return 0;
}

size_t shard_s3_folders_between(const struct shard_s3_folders *f, const struct shard_s3_text *after,
                                const struct shard_s3_text *end, size_t *first) {
  *first = find_first(f, after->bytes, after->length, true);
  size_t last = end ? find_first(f, end->bytes, end->length, false) : f->count;
  return last > *first ? last - *first : 0;
}

ssize_t shard_s3_folders_parent(const struct shard_s3_text *first, const struct shard_s3_text *last,
                                size_t prefix) {
  size_t same = shard_s3_split_shared(first->bytes, first->length, last->bytes, last->length);
  size_t up = prefix, folder = prefix;
  for (size_t i = prefix; i < same; i++) {
    if (last->bytes[i] == '/') {
      up = folder;
      folder = i + 1;
    }
  }
  if (memchr(last->bytes + folder, '/', last->length - folder)) {
    return (ssize_t)folder;
  }
  return folder > prefix ? (ssize_t)up : -1;
}

void shard_s3_folders_free(struct shard_s3_folders *f) {
  for (size_t i = 0; i < f->count; i++) {
    free(f->list[i].name);
  }
  free(f->list);
}
