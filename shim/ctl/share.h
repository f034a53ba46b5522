/* SPDX-License-Identifier: MIT */
/* share.h - shardctl index --share: one listing in a bucket for all nodes of a job. */
#ifndef SHARD_CTL_SHARE_H
#define SHARD_CTL_SHARE_H

struct shard_options;

enum ctl_shared {
  CTL_SHARE_HERE,  /* it was there, and has been got */
  CTL_SHARE_PUT,   /* there is none, or an old one: make it and put it there */
  CTL_SHARE_APART, /* what is there is of another source: make one, and leave that as it is */
};

/*
 * Look at the object `url` for the listing of `source` (a canonical directory, or
 * s3://bucket/prefix). seconds: wait so long for it, and never return CTL_SHARE_PUT; negative: look
 * once. CTL_DONE and *what, or CTL_FAILED or CTL_USAGE after a message. CTL_SHARE_HERE: `file` has
 * it, whole and checked.
 */
int ctl_share_look(const char *url, const char *source, const struct shard_options *options,
                   double seconds, const char *file, enum ctl_shared *what);

#endif
