/* SPDX-License-Identifier: MIT */
/*
 * buckets.h - a bucket as the source of a command, and objects in it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_options;
struct shard_build_result;

/* Of a listing: keys that end in a slash; and what it took. */
struct ctl_buckets {
  uint64_t markers, requests, retries;
};

/*
 * List s3://bucket/prefix into the listing `file`: between which keys, and whether without
 * credentials, ctl_given says. CTL_DONE, or CTL_FAILED or CTL_USAGE after a message.
 */
int ctl_buckets_build(const char *url, struct ctl_buckets *told,
                      const struct shard_options *options, const char *file,
                      struct shard_build_result *result);

/* s3://bucket/prefix as listings name their source; malloc'd. CTL_DONE, or as above. */
int ctl_buckets_source(const char *url, char **out);

/* The part of a url that names are relative to: "s3://bucket/a/" of s3://bucket/a/b. Malloc'd. */
char *ctl_buckets_root(const char *url);

/* Whether it is s3://bucket/key, the name of an object. CTL_DONE, or CTL_USAGE after a message. */
int ctl_buckets_object(const char *url);

/*
 * Get the object `url` into the empty file `fd`; put files as objects, all of one bucket. CTL_DONE,
 * or CTL_FAILED or CTL_USAGE after a message.
 */
int ctl_buckets_get(const char *url, bool listing, int fd);

/* The same of an object of at most so many bytes, and no message: 0, or a negative errno and a line
 * in err[size]. */
int ctl_buckets_fetch(const char *url, uint64_t most, int fd, char *err, size_t size);

struct ctl_buckets_file {
  const char *url, *file;
};
int ctl_buckets_put(const struct ctl_buckets_file *files, size_t count, bool only_new);

/*
 * Ask for a listing again and again. *there: the object is there, and in `fd`, where it stays as
 * long as it is the same. `count`: how many objects may be asked for at a time. CTL_DONE, or as
 * above. Close in any case.
 */
struct ctl_buckets_objects;
int ctl_buckets_open(const char *url, bool anonymous, size_t count,
                     struct ctl_buckets_objects **objects);
int ctl_buckets_look(struct ctl_buckets_objects *objects, int fd, bool *there);
void ctl_buckets_close(struct ctl_buckets_objects *objects);
