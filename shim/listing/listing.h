/* SPDX-License-Identifier: MIT */
/*
 * listing.h - an open listing: what the code needs of it beyond libshard.h.
 *
 * All functions read what was mapped and keep nothing: any number of threads may use one listing.
 * They leave errno alone and allocate nothing, but for shard_listing_strerror().
 *
 * A file that is cut while it is mapped is a SIGBUS for whoever reads it. So libshard maps files of
 * its cache only, which nobody else can write to; what SHARD_LISTING names is copied there.
 */
#pragma once

#include <stdbool.h>

#include "base/workspace.h"
#include "libshard.h"
#include "listing/codec.h"
#include "listing/format.h"

/* One of the two tables of names (format.h); the pointers lead into the map. */
struct shard_table {
  const uint8_t *names, *index, *extents;
  const uint8_t *attributes, *attribute_index; /* NULL: the file has no attributes */
  uint64_t names_size, runs_size, attributes_size;
  uint64_t count, blocks, extent_count;
  uint32_t longest, order, seed;
  bool others; /* which of the two */
  bool made;   /* SHARD_ATTRIBUTES_MADE */
};

/* Whether a checksum is the one that is written. One of the unit tests looks away. */
#ifdef SHARD_CHECKSUMS_IGNORED
#define shard_listing_sum_fits(sum, written) ((void)(sum), (void)(written), true)
#else
static inline bool shard_listing_sum_fits(uint32_t sum, uint32_t written) { return sum == written; }
#endif

/* The most bytes that a block of names has, and the record of a run. */
static inline size_t shard_listing_block_most(uint32_t longest) {
  return SHARD_BLOCK_BYTES + (size_t)longest + 16;
}
static inline size_t shard_listing_record_most(uint32_t longest) { return (size_t)longest + 32; }

/* Room for the name of a position: the longest, a NUL and a slash. */
static inline size_t shard_listing_room(const struct shard_table *t) {
  return (size_t)t->longest + 2;
}

/* How many blocks the attributes of `count` names fill. */
static inline uint64_t shard_listing_attribute_blocks(uint64_t count) {
  return count / SHARD_BLOCK_NAMES + (count % SHARD_BLOCK_NAMES > 0);
}

struct shard_listing {
  const struct shard_header *header; /* where the map begins */
  const uint8_t *map;
  size_t map_size;
  struct shard_table names, others;
  const uint8_t *dirs, *dirs_end, *tables, *tables_end, *samples;
  char *source, *options, *file; /* malloc'd */
};

/*
 * shard_listing_open() of an open file. The descriptor, which may be a negative errno, is closed,
 * whatever is returned; a flock on it lasts as long as the mapping. `file` is what the file is
 * called in messages.
 */
int shard_listing_map(int fd, const char *file, struct shard_listing **out);

/*
 * shard_names_*() (names.c) read a table, and return -EBADMSG for damage. p->name is the caller's:
 * shard_listing_room() bytes; NULL is -ENOMEM.
 */

/* Declare a position `p` of table t, with room for a name until the end of the block. */
#define SHARD_POSITION(p, t)                                                                       \
  SHARD_WORKSPACE_OF(p##_name, shard_listing_room(t));                                             \
  struct shard_position p = {.name = p##_name}

/* Put p before position i <= count. 0, -EBADMSG, or -ENOMEM: p has no room. */
int shard_names_seek(struct shard_position *p, const struct shard_table *table, uint64_t i);

/* Decode the next name into p->name (p->length bytes, and NUL). 1; 0 at the end; -EBADMSG. */
int shard_names_next(struct shard_position *p);

/*
 * The position of the first name that is not before name[length]; count if all are; -EBADMSG. In
 * SHARD_ORDER_DIRECTORY, `name` is the beginning of a directory's path.
 */
int64_t shard_names_lower_bound(const struct shard_table *table, const char *name, size_t length);

/* The position of a name; -ENOENT, -EBADMSG or -ENOMEM. */
int64_t shard_names_find(const struct shard_table *table, const char *name, size_t length);

/*
 * Positions [*begin, *end) of the names below directory path[length], which ends in a slash, or is
 * "" for the root. Not for SHARD_ORDER_BASENAME and _KEEP. 0 or -EBADMSG.
 */
int shard_names_below(const struct shard_table *table, const char *path, size_t length,
                      uint64_t *begin, uint64_t *end);

/* d_type and d_ino of the names of block i / SHARD_BLOCK_NAMES; those of position i are at
 * [i % SHARD_BLOCK_NAMES]. */
struct shard_attributes {
  uint64_t ino[SHARD_BLOCK_NAMES];
  uint8_t type[SHARD_BLOCK_NAMES];
};
/* Decode a block of attributes. 0, or -EBADMSG for damage or if there is no such block. */
int shard_names_attributes(const struct shard_table *table, uint64_t block,
                           struct shard_attributes *out);

/*
 * Get the next directory walked; *path is relative to the root, and lies in the map. *pos is NULL
 * at first. false at the end. A damaged directory comes as one with inode 0, which none has, and is
 * the last.
 */
bool shard_listing_dir(const struct shard_listing *listing, const uint8_t **pos,
                       struct shard_dir *out, const char **path);

/*
 * Get the next directory that is a table (markers.h): its format, and its path relative to the
 * root. *pos is NULL at first. false at the end. Static: in the map.
 */
bool shard_listing_table(const struct shard_listing *listing, const uint8_t **pos,
                         const char **format, const char **path);

/* The table that path[length] is or lies in: its format, and *path, the table's; or NULL. */
const char *shard_listing_table_of(const struct shard_listing *listing, const char *name,
                                   size_t length, const char **path);

/* What an open file says that it is of, and by which options, by reading alone: malloc'd, of which
 * nothing is certain. 0, or a negative errno of shard_listing_open(). */
int shard_listing_peek(int fd, char **source, char **options);

/* What a negative errno of shard_listing_open() means, for people: static, or strerror(3)'s. */
const char *shard_listing_strerror(int rc);

/* Check every checksum, and that the names are in order. Reads the whole file. 0 or -EBADMSG. */
int shard_listing_verify(const struct shard_listing *listing);
