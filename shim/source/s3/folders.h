/* SPDX-License-Identifier: MIT */
/*
 * folders.h - the folders of a bucket whose names are known: good places to divide a range.
 */
#pragma once

#include "source/s3/split.h"

#define SHARD_S3_FOLDERS_MOST 65536 /* that are kept */

struct shard_s3_folder {
  char *name; /* with its slash; not ended by NUL */
  uint32_t length;
  bool open; /* whether others follow it is not known */
};

/* Sorted by name. All zero at first. */
struct shard_s3_folders {
  struct shard_s3_folder *list;
  size_t count, room;
};

/* Add a folder, or set `open` of one that is there. Without room it is left out. 0 or -ENOMEM. */
int shard_s3_folders_add(struct shard_s3_folders *folders, const char *name, size_t length,
                         bool open);

/* Count those after `after` and before `end` (NULL: to the last). *first: the first's index. */
size_t shard_s3_folders_between(const struct shard_s3_folders *folders,
                                const struct shard_s3_text *after, const struct shard_s3_text *end,
                                size_t *first);

/*
 * After a page from `first` to `last`: choose the folder whose folders should be asked for, and
 * return the length of its name, which `last` begins with. If the page lies in few folders, it is
 * the one around them. -1: none, since the folders hold few keys, or `prefix` has no folders.
 */
ssize_t shard_s3_folders_parent(const struct shard_s3_text *first, const struct shard_s3_text *last,
                                size_t prefix);

void shard_s3_folders_free(struct shard_s3_folders *folders);
