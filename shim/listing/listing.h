/* SPDX-License-Identifier: MIT */
/*
 * listing.h - what the rest of libshard.so needs of an open listing beyond libshard.h.
 */
#ifndef SHARD_LISTING_H
#define SHARD_LISTING_H

#include <stdbool.h>

#include "libshard.h"
#include "listing/format.h"

struct shard_listing {
  const struct shard_header *header;
  const uint8_t *map;
  size_t map_size;
  const uint64_t *offsets;
  const uint32_t *crcs;
  const char *source, *options; /* in the map */
  const uint8_t *dirs, *dirs_end;
  char *file;
};

/* A directory of the dirs section. `path` is relative to the root, NUL-terminated, in the map. */
struct shard_dir_entry {
  struct shard_dir id;
  const char *path;
};

/*
 * Iterate over the directories walked: *pos NULL at first. true and *out filled, or false at the
 * end. The section was checked when the listing was opened.
 */
bool shard_listing_dir(const struct shard_listing *listing, const uint8_t **pos,
                       struct shard_dir_entry *out);

/* What a negative errno of shard_listing_open() means, for people. Static, or strerror(3)'s. */
const char *shard_listing_strerror(int rc);

/* Check every checksum and that names are in order. 0 or -EBADMSG. Reads the whole file. */
int shard_listing_verify(const struct shard_listing *listing);

#endif
