/* SPDX-License-Identifier: MIT */
/*
 * folders.h - folders of a bucket that are known by name: good places to divide a range at.
 */
#ifndef SHARD_SOURCE_S3_FOLDERS_H
#define SHARD_SOURCE_S3_FOLDERS_H

#include "source/s3/split.h"

#define SHARD_S3_FOLDERS_MOST 65536 /* that are kept */

struct shard_s3_folder {
  char *name; /* with its slash; not ended by NUL */
  uint32_t length;
  bool open; /* what follows it is not known */
};

/* In order. Begin with all zero. */
struct shard_s3_folders {
  struct shard_s3_folder *list;
  size_t count, room;
};

/* Add one, if it is not there and there is room. 0 or -ENOMEM. */
int shard_s3_folders_add(struct shard_s3_folders *folders, const char *name, size_t length,
                         bool open);

/* How many there are after `after` and before `end` (NULL: to the last); *first: the first's. */
size_t shard_s3_folders_between(const struct shard_s3_folders *folders,
                                const struct shard_s3_text *after, const struct shard_s3_text *end,
                                size_t *first);

/*
 * The folder whose folders are worth knowing, after a page from `first` to `last`: the bytes of
 * `last` that are its name. Where the page has few folders it is the one that holds them. -1: none,
 * as they have few keys, or all lie in `prefix` itself.
 */
ssize_t shard_s3_folders_parent(const struct shard_s3_text *first, const struct shard_s3_text *last,
                                size_t prefix);

void shard_s3_folders_free(struct shard_s3_folders *folders);

#endif
