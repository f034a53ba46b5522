/* SPDX-License-Identifier: MIT */
/* serve.h - the entries of a directory for this rank, once it is chosen how it is served
 * (choose.h). */
#pragma once

#include "listing/listing.h"
#include "listing/options.h"
#include "shard/shard.h"
#include "view/view.h"

enum shard_served_how {
  SHARD_SERVED_LISTED,  /* from the listing */
  SHARD_SERVED_HASHED,  /* the real stream, by the hash of each name */
  SHARD_SERVED_UNLISTED /* made after the listing: the real stream without files of the dataset */
};

/* The order of the files of a LISTED directory. */
enum shard_served_order {
  SHARD_ORDER_LISTING, /* as the listing has them */
  SHARD_ORDER_PLACES,  /* the rank's share, shuffled: the directory is the whole dataset */
  SHARD_ORDER_LEAF     /* a permutation of the directory's own samples: no sub-directories */
};

/* A directory's part of a listing: what lies below it in both tables. */
struct shard_scope {
  const struct shard_listing *listing;
  uint64_t begin, end, others_begin, others_end;
};

struct shard_view_dataset;

struct shard_served {
  enum shard_served_how how;
  enum shard_served_order order;
  bool leaf; /* LISTED: it has no sub-directories */
  const struct shard_options *options;
  struct shard_view_dataset *dataset; /* datasets.h */
  int error;                          /* why nothing can be read: there is no list for the epoch */
  struct shard_scope scope;           /* LISTED; choose.c sets the listing */
  struct shard_share share;
  uint64_t key;                     /* of the shuffle; 0: none */
  struct shard_permutation shuffle; /* of SHARD_ORDER_LEAF, */
  uint64_t sample;                  /* whose first sample this is */
  int64_t epoch;                    /* shard_epoch_read()'s */
  int stats;                        /* the dataset's number there, or -1 */
  bool own_position; /* the file system cannot set a directory's offset: the reader keeps it */
  size_t base;
  char path[]; /* relative to the root, with a slash at its end; "" for the root */
};

/* LISTED: fill in scope, order, leaf and shuffle; listing, path, share and key are known. 0 or
 * -EBADMSG. */
int shard_serve_prepare(struct shard_served *served);

/* See shard_view_read(). */
ssize_t shard_serve_listed(const struct shard_served *served, int fd, void *buf, size_t size,
                           off_t *position);
ssize_t shard_serve_filtered(const struct shard_served *served, int fd, void *buf, size_t size);
