/* SPDX-License-Identifier: MIT */
/*
 * cache.h - listings for the ranks of a job: found in the node's cache, checked, or built by one
 * process while the others wait.
 *
 *   wanted.h    which listing is asked for, and its key
 *   filenames.h the names of files in the cache
 *   entry.h     where a listing lies there
 *   elect.h     the lock under which one process builds
 *   produce.h   shardctl at work
 *   prebuilt.h  a listing that was made elsewhere: is it the one, and true?
 *   given.h     SHARD_LISTING as a list: which one is of this dataset
 *   first.h     SHARD_LISTING_BUILD=first
 *   fetch.h     objects that SHARD_LISTING names
 *   stream.h    a bucket's listing that is read while it is made
 *
 * All functions return 0, or a negative errno and one line for people in err[size] that names the
 * path or variable at fault and the remedy. Thread-safe. They may start a process (host/builder.h).
 *
 * job: the identity of a job, all of whose processes on this node shall have one listing, the first
 * that any of them had, though the directory changes meanwhile (then a warning tells the digest);
 * NULL: the listing as it is now.
 */
#ifndef SHARD_CACHE_CACHE_H
#define SHARD_CACHE_CACHE_H

#include <stddef.h>

struct shard_listing;
struct shard_stream;

/* As shard_dataset_open(). */
int shard_cache_open(const char *dir, const char *options, const char *job,
                     struct shard_listing **out, char *err, size_t size);

/*
 * The same for a directory that stands for a prefix of a bucket (s3://bucket/prefix): the keys
 * below it are the names. A bucket does not tell that it has changed: each job lists it anew.
 */
int shard_cache_open_bucket(const char *dir, const char *url, const char *options, const char *job,
                            struct shard_listing **out, char *err, size_t size);

/* The same without a directory. environment: for shardctl, see shard_dataset_open_s3(). */
int shard_cache_open_keys(const char *url, const char *options, const char *const *environment,
                          const char *job, struct shard_listing **out, char *err, size_t size);

/*
 * The same listing while it is made, in the order in which names come (stream.h): shardctl goes on
 * in the background once there is a first part. All of a job on this node read one stream.
 */
int shard_cache_open_stream(const char *dir, const char *url, const char *options, const char *job,
                            struct shard_stream **out, char *err, size_t size);

/*
 * A listing of the names of a manifest, a text with a name a line, that lie below directory `dir`:
 * in the manifest's own order within each directory, those that come twice too. It is made when the
 * manifest is first used on a node; all of a job (NULL: none is known) keep that one.
 */
int shard_cache_open_manifest(const char *dir, const char *manifest, const char *job,
                              struct shard_listing **out, char *err, size_t size);

#endif
