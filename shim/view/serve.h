/* SPDX-License-Identifier: MIT */
/* serve.h - the entries of a directory that this rank sees, after prepare.h has decided how. */
#pragma once

#include "listing/listing.h"
#include "listing/options.h"
#include "shard/shard.h"
#include "view/view.h"

/* Where the entries of a directory come from. */
enum shard_serve_source {
  SHARD_SERVE_LISTED,  /* the listing */
  SHARD_SERVE_HASHED,  /* the real directory, filtered by the hash of each name */
  SHARD_SERVE_UNLISTED /* the real directory, newer than the listing: no files of the dataset */
};

/* The order of the files of a LISTED directory. */
enum shard_serve_order {
  SHARD_SERVE_LISTING_ORDER,  /* the listing's */
  SHARD_SERVE_SHUFFLED_SHARE, /* the rank's share, shuffled: the directory is the whole dataset */
  SHARD_SERVE_SHUFFLED_LEAF   /* the directory's samples, shuffled: it has no sub-directories */
};

/* A directory's part of a listing: what lies below it in both tables. */
struct shard_scope {
  const struct shard_listing *listing;
  uint64_t begin, end, others_begin, others_end;
};

struct shard_view_dataset;

struct shard_served_dir {
  enum shard_serve_source source;
  enum shard_serve_order order;
  bool leaf; /* LISTED: it has no sub-directories */
  const struct shard_options *options;
  struct shard_view_dataset *dataset; /* datasets.h */
  int error;                          /* why nothing can be read: the epoch has no listing */
  struct shard_scope scope;           /* LISTED; prepare.c sets the listing */
  struct shard_share share;
  uint64_t key;                     /* of the shuffle; 0: none */
  struct shard_permutation shuffle; /* of SHUFFLED_LEAF */
  uint64_t sample;                  /* SHUFFLED_LEAF: the directory's first sample */
  int64_t epoch;                    /* of shard_epoch_read() */
  int stats;                        /* the dataset's number in the statistics, or -1 */
  bool own_position; /* the file system cannot set a directory's offset: the reader keeps it */
  size_t path_bytes; /* without the NUL */
  char path[];       /* from the root, with a slash at its end; "" for the root */
};

/*
 * Finds what lies below a LISTED directory: fills in scope, order, leaf and shuffle. The caller has
 * set listing, path, share and key.
 * Errors: -EBADMSG, the listing is damaged.
 */
int shard_serve_find_scope(struct shard_served_dir *served);

/* Does shard_view_read()'s work for a LISTED directory. */
ssize_t shard_serve_listed(const struct shard_served_dir *served, int fd, void *buf, size_t size,
                           off_t *position);

/* Does shard_view_read()'s work for any other directory. */
ssize_t shard_serve_filtered(const struct shard_served_dir *served, int fd, void *buf, size_t size);
