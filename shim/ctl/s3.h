/* SPDX-License-Identifier: MIT */
/*
 * s3.h - lists a bucket for a command, and gets objects. ctl_args tells whether requests
 * are signed. What returns an exit status has printed a message, if that is not CTL_DONE.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_options;
struct shard_build_result;

/* What listing a bucket took; markers: keys that end in a slash, which are left out. */
struct ctl_s3_counts {
  uint64_t markers, requests, retries;
};

/*
 * List a bucket's prefix into a listing.
 *
 * url: s3://bucket/prefix.
 * counts, result: filled in. options: which names. file: the listing to write.
 * Returns an exit status.
 */
int ctl_s3_list(const char *url, struct ctl_s3_counts *counts, const struct shard_options *options,
                const char *file, struct shard_build_result *result);

/* Returns the part of a URL that names are relative to ("s3://bucket/a/" of s3://bucket/a/b),
 * malloc'd; NULL: it is not a URL, or there is no memory. */
char *ctl_s3_root(const char *url);

/* Check that a URL names an object: s3://bucket/key. Returns an exit status. */
int ctl_s3_check_object(const char *url);

/*
 * Get an object.
 *
 * url: s3://bucket/key. most: bytes that the object may have; 0: any number. fd: an empty file.
 * Returns 0, or a negative errno and a line in err[size]; "": a message was printed.
 */
int ctl_s3_get(const char *url, uint64_t most, int fd, char *err, size_t size);
