/* SPDX-License-Identifier: MIT */
/*
 * folders.h - keeps the known names of a bucket's folders, which are good places to divide a range.
 */
#pragma once

#include "source/s3/split.h"

#define SHARD_S3_FOLDERS_MOST 65536 /* folders that are kept */

struct shard_s3_folder {
  char *name; /* with the slash at its end; not ended by NUL */
  uint32_t length;
  bool open; /* it is not known whether other folders follow */
};

/* Folders, sorted by name. All zeros at first. */
struct shard_s3_folders {
  struct shard_s3_folder *list;
  size_t count, room;
};

/*
 * Adds a folder, or sets `open` of a folder that is there. When SHARD_S3_FOLDERS_MOST are there,
 * the folder is left out.
 * Errors: -ENOMEM.
 */
int shard_s3_folders_add(struct shard_s3_folders *folders, const char *name, size_t length,
                         bool open);

/*
 * Returns how many folders lie after `after` and before `end`.
 * end: NULL: there is no end.
 * first: gets the index of the first folder after `after`.
 */
size_t shard_s3_folders_between(const struct shard_s3_folders *folders,
                                const struct shard_s3_text *after, const struct shard_s3_text *end,
                                size_t *first);

/*
 * Chooses the folder whose folders are to be asked for, after a page with the keys `first` to
 * `last`. If the page lies in few folders, the choice is the folder around them.
 * prefix: bytes of the listed prefix, which all keys begin with.
 * Returns the length of the folder's name, which `last` begins with; -1 if there is none to ask
 * for: the folders hold few keys, or the prefix has no folders.
 */
ssize_t shard_s3_folders_parent(const struct shard_s3_text *first, const struct shard_s3_text *last,
                                size_t prefix);

/* Frees what the folders hold. */
void shard_s3_folders_free(struct shard_s3_folders *folders);
