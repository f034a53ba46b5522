/* SPDX-License-Identifier: MIT */
/* shared_listing.h - shardctl index --share: one listing, an object or a file, for all nodes. */
#pragma once

struct shard_listing;
struct shard_options;

enum ctl_shared_listing {
  CTL_SHARED_HERE,  /* it was there, and has been got */
  CTL_SHARED_PUT,   /* there is none, or an old one: make it and put it there */
  CTL_SHARED_APART, /* what is there is of another source: make one, and leave that as it is */
};

/*
 * See whether `url`, an object or a file, is the listing of `source` (a canonical directory, or
 * s3://bucket/prefix). seconds: wait so long for it, and never return CTL_SHARED_PUT; negative:
 * look once. CTL_DONE and *what, or CTL_FAILED or CTL_USAGE after a message. CTL_SHARED_HERE:
 * `file` has it, whole and checked.
 */
int ctl_shared_listing_find(const char *url, const char *source,
                            const struct shard_options *options, double seconds, const char *file,
                            enum ctl_shared_listing *what);

/* Put a listing into a file that all nodes see, whole. CTL_DONE, or CTL_FAILED after a message. */
int ctl_shared_listing_put(const struct shard_listing *listing, const char *file);
