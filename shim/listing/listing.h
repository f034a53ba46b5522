/* SPDX-License-Identifier: MIT */
/*
 * listing.h - what the rest of libshard.so needs of an open listing beyond libshard.h.
 */
#ifndef SHARD_LISTING_LISTING_H
#define SHARD_LISTING_LISTING_H

#include <stdbool.h>

#include "libshard.h"
#include "listing/format.h"

/* One of the two tables of names, as mapped. */
struct shard_table {
  const uint8_t *names, *index, *extents;
  const uint8_t *attributes, *attribute_index; /* NULL: none stored */
  uint64_t names_size, runs_size, attributes_size;
  uint64_t count, blocks, extent_count;
  uint32_t longest, order, seed;
  bool made; /* attributes are made of the position */
};

/* Blocks of the attributes of `count` names. */
static inline uint64_t shard_listing_attribute_blocks(uint64_t count) {
  return count / SHARD_BLOCK_NAMES + (count % SHARD_BLOCK_NAMES > 0);
}

struct shard_listing {
  const struct shard_header *header;
  const uint8_t *map;
  size_t map_size;
  struct shard_table names, others;
  const char *source, *options; /* in the map */
  const uint8_t *dirs, *dirs_end;
  char *file;
};

/*
 * Reading a table (names.c). p->name is the caller's: room for table->longest and a NUL. All
 * return -EBADMSG for damage and leave errno alone; none allocates.
 */

/*
 * A position on the stack whose buffer is as long as this table's longest name: a host's thread
 * may have a small stack, and names are rarely longer than a hundred bytes.
 */
#define SHARD_POSITION(t)                                                                          \
  { .name = __builtin_alloca((t)->longest + 1) }

/* Put p before position i <= count. */
int shard_names_seek(struct shard_position *p, const struct shard_table *table, uint64_t i);

/* Decode the next name into p->name (p->length bytes, and NUL). 1, or 0 at the end. */
int shard_names_next(struct shard_position *p);

/*
 * The position of the first name that is not before name[length]; count if there is none. In the
 * order SHARD_ORDER_DIRECTORY, `name` is the beginning of a directory's path.
 */
int64_t shard_names_lower_bound(const struct shard_table *table, const char *name, size_t length);

/* Positions [*begin, *end) of what lies below directory path[length], which ends in a slash; "" is
 * the root. Not for SHARD_ORDER_BASENAME and _KEEP. 0 or -EBADMSG. */
int shard_names_below(const struct shard_table *table, const char *path, size_t length,
                      uint64_t *begin, uint64_t *end);

/* d_type and d_ino of the names of a block: position i's at [i % SHARD_BLOCK_NAMES]. */
struct shard_attributes {
  uint64_t ino[SHARD_BLOCK_NAMES];
  uint8_t type[SHARD_BLOCK_NAMES];
};
int shard_names_attributes(const struct shard_table *table, uint64_t block,
                           struct shard_attributes *out);

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

/* The directory with this identity: true and *out filled. */
bool shard_listing_dir_find(const struct shard_listing *listing, uint64_t dev, uint64_t ino,
                            struct shard_dir_entry *out);

/* What a negative errno of shard_listing_open() means, for people. Static, or strerror(3)'s. */
const char *shard_listing_strerror(int rc);

/* Check every checksum and that names are in order. 0 or -EBADMSG. Reads the whole file. */
int shard_listing_verify(const struct shard_listing *listing);

#endif
