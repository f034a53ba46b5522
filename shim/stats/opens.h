/* SPDX-License-Identifier: MIT */
/*
 * opens.h - the datasets that this process knows, and which of them an opened file is of
 * (host/locate.h). errno may change.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/options.h"
#include "stats/log.h"

/* Datasets are added and never removed; their numbers are those of the process's notes. */
struct shard_opens_dataset {
  const char *path;             /* as it was named, absolute, or s3://bucket/prefix/ */
  bool program;                 /* the program has listed it, and divides it itself */
  struct shard_options options; /* which names are of it */
};
struct shard_opens_dataset *shard_opens_dataset(int number);

/* Add a dataset, if its path is new. Returns its number; -1: there are too many. */
int shard_opens_add(const char *path, bool program, const struct shard_options *options);

/* Returns the number of the dataset with a path; -1: there is none. */
int shard_opens_find(const char *path, bool program);

/* Print the root that is hashed before each name: the canonical path, with a slash at its end.
 * Returns the length; 0: the directory is missing. */
size_t shard_opens_root(int number, char *buf, size_t size);

/*
 * Find the dataset of a file that was opened as fd by openat(dirfd, path).
 *
 * hash: set to the hash of the file's name (log.h).
 * Returns the dataset's number; -1: none. If it cannot be told, the open is noted as lost.
 */
int shard_opens_locate(int fd, int dirfd, const char *path, uint64_t *hash);
