/* SPDX-License-Identifier: MIT */
/* cache.h - shard_dataset_open() of libshard.h for the ranks of a job. */
#ifndef SHARD_CACHE_CACHE_H
#define SHARD_CACHE_CACHE_H

#include <stddef.h>

struct shard_listing;

/*
 * As shard_dataset_open(). job: the identity of a job, all of whose processes on this node shall
 * have one listing, the first that any of them had, though the directory changes meanwhile (then a
 * warning tells the digest); NULL: the listing as it is now.
 */
int shard_cache_open(const char *dir, const char *options, const char *job,
                     struct shard_listing **out, char *err, size_t size);

/*
 * The same for a directory that stands for a prefix of a bucket (s3://bucket/prefix): the keys
 * below it are the names. A bucket does not tell that it has changed: each job lists it anew.
 */
int shard_cache_open_remote(const char *dir, const char *url, const char *options, const char *job,
                            struct shard_listing **out, char *err, size_t size);

/*
 * The same listing while it is made, in the order in which names come (stream.h): shardctl goes on
 * in the background once there is a first part. All of a job on this node read one stream.
 */
struct shard_stream;
int shard_cache_open_stream(const char *dir, const char *url, const char *options, const char *job,
                            struct shard_stream **out, char *err, size_t size);

/*
 * A listing of the names of a manifest, a text with a name a line, that lie below directory `dir`:
 * in the manifest's own order within each directory, those that come twice too. It is made when the
 * manifest is first used on a node; all of a job (NULL: none is known) keep that one.
 */
int shard_cache_open_manifest(const char *dir, const char *manifest, const char *job,
                              struct shard_listing **out, char *err, size_t size);

/*
 * Fetch an object (s3://bucket/key, a listing or a manifest) for directory `dir`, once for a job on
 * this node (NULL: for some minutes): its path in the cache goes to file[]. 0, or a negative errno
 * and a line in err[size].
 */
int shard_cache_fetch(const char *dir, const char *url, const char *job, char *file,
                      size_t file_size, char *err, size_t size);

/* Let a message about such a file name the object instead. */
void shard_cache_name_object(const char *file, const char *url, char *err, size_t size);

#endif
