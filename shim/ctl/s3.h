/* SPDX-License-Identifier: MIT */
/*
 * s3.h - lists a bucket for a command, and gets objects. ctl_args tells whether requests are
 * signed. A function that returns an exit status other than CTL_DONE has printed a message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_options;
struct shard_build_result;

/* Counts of the listing of a bucket. markers: keys that end in a slash, which are left out. */
struct ctl_s3_counts {
  uint64_t markers, requests, retries;
};

/*
 * Lists the prefix of a bucket, and writes the listing.
 * url: s3://bucket/prefix.
 * counts, result: get the counts and the facts of the listing.
 * options: of the listing.
 * file: the path of the listing.
 * Returns an exit status.
 */
int ctl_s3_list(const char *url, struct ctl_s3_counts *counts, const struct shard_options *options,
                const char *file, struct shard_build_result *result);

/*
 * Returns the part of a URL that names are relative to, such as "s3://bucket/a/" of
 * s3://bucket/a/b, which the caller frees; NULL if `url` is no URL, or there is no memory.
 */
char *ctl_s3_root(const char *url);

/* Checks that a URL names an object: s3://bucket/key. Returns an exit status. */
int ctl_s3_check_object(const char *url);

/*
 * Gets an object.
 * url: s3://bucket/key.
 * most: bytes that the object may have; 0: any number.
 * fd: an empty file, to which the object is written.
 * Errors: a negative errno and a line in err[size]. The line is "" if a message was printed.
 */
int ctl_s3_get(const char *url, uint64_t most, int fd, char *err, size_t size);
