/* SPDX-License-Identifier: MIT */
/*
 * named.h - what SHARD_LISTING names: files and objects (s3://bucket/key) of listings that all
 * ranks share (config/listings.h); or a listing or manifest of the rank's own.
 */
#pragma once

#include <limits.h>
#include <stddef.h>

struct shard_listing;
struct shard_request;

/*
 * Look at what SHARD_LISTING names for all ranks. 1: *out is the listing of the request. 0: there
 * is one file or object, and it is of another directory. A negative errno and a line in err[size]:
 * it is not true any more, was made with other options, or cannot be used; or of several there is
 * none of this dataset, or there are two.
 */
int shard_named_open(const struct shard_request *r, struct shard_listing **out, char *err,
                     size_t size);

/*
 * Open the listing that SHARD_LISTING names for this rank or epoch, a file or an object. 0, or a
 * negative errno and a line in err[size].
 */
int shard_named_open_own(const struct shard_request *r, const char *list,
                         struct shard_listing **out, char *err, size_t size);

/*
 * The path of a file that SHARD_LISTING names. An object, a listing or a manifest, is fetched, once
 * for the request's job on this node (where none is known, for some minutes), and lies in the
 * cache. 0, or a negative errno and a line in err[size].
 */
int shard_named_get(const struct shard_request *r, const char *name, char file[PATH_MAX], char *err,
                    size_t size);
