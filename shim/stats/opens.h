/* SPDX-License-Identifier: MIT */
/*
 * opens.h - keeps the datasets that this process knows, and finds the dataset of an opened file
 * (host/locate.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/options.h"
#include "stats/log.h"

/*
 * A dataset. Datasets are added and never removed. The number of a dataset is the number in the
 * notes of this process's log.
 */
struct shard_opens_dataset {
  const char *path;             /* the absolute path by which it was named, or a bucket's URL */
  bool program;                 /* the program has listed the dataset, and divides it itself */
  struct shard_options options; /* which names belong to the dataset */
};

/* Returns the dataset with a number. */
struct shard_opens_dataset *shard_opens_dataset(int number);

/*
 * Adds a dataset, unless there is one with the same path and `program`.
 * path: copied.
 * Returns the dataset's number; -1: there are too many datasets, or there is no memory.
 */
int shard_opens_add(const char *path, bool program, const struct shard_options *options);

/* Returns the number of the dataset with a path or URL, and `program`; -1: there is none. */
int shard_opens_find(const char *path, bool program);

/*
 * Prints the root that is hashed before each name: the canonical path or the URL, with a slash at
 * its end.
 * Returns the length; 0: the directory has never been found, or the root does not fit.
 */
size_t shard_opens_root(int number, char *buf, size_t size);

/*
 * Finds the dataset of a file that was opened as fd by openat(dirfd, path). If the dataset cannot
 * be told, the open counts as lost.
 * hash: gets the hash of the file's name (log.h).
 * Returns the dataset's number; -1: none, or not told.
 */
int shard_opens_locate(int fd, int dirfd, const char *path, uint64_t *hash);
