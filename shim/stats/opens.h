/* SPDX-License-Identifier: MIT */
/*
 * opens.h - the datasets that this process knows, and the dataset of an opened file (host/place.h).
 * The datasets of some directories are remembered. No descriptor is kept, and errno may change.
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
struct shard_opens_dataset *shard_opens_dataset(int i);

/* Add a dataset, unless there is one of this path. Its number; -1: it is one too many. */
int shard_opens_add(const char *path, bool program, const struct shard_options *options);
/* Its number; -1: it is not there. */
int shard_opens_find(const char *path, bool program);

/* The root that is hashed before each name of the dataset: the canonical path, with a slash, in
 * buf[size]. The length; 0: the directory is not there. */
size_t shard_opens_root(int i, char *buf, size_t size);

/* The number of the dataset of a file that was opened as fd by openat(dirfd, path); -1: none.
 * *hash: the hash of the file's name (log.h). An open whose dataset cannot be told is noted as
 * lost. */
int shard_opens_locate(int fd, int dirfd, const char *path, uint64_t *hash);
