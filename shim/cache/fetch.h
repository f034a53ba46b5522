/* SPDX-License-Identifier: MIT */
/* fetch.h - an object that SHARD_LISTING names (s3://bucket/key), as a job has got it. */
#ifndef SHARD_CACHE_FETCH_H
#define SHARD_CACHE_FETCH_H

#include <stddef.h>

/*
 * Fetch an object, a listing or a manifest, for directory `dir`, once for a job on this node (NULL:
 * for some minutes): its path in the cache goes to file[]. 0, or a negative errno and a line in
 * err[size]. Thread-safe.
 */
int shard_fetch(const char *dir, const char *url, const char *job, char *file, size_t file_size,
                char *err, size_t size);

/* Let a message about such a file name the object instead. */
void shard_fetch_rename(const char *file, const char *url, char *err, size_t size);

#endif
