/* SPDX-License-Identifier: MIT */
/*
 * listing.h - reads an open listing, beyond the functions of libshard.h.
 *
 * All functions but shard_listing_map(), shard_listing_peek() and shard_listing_strerror() read the
 * mapped file, keep no state, keep errno, and allocate no memory but workspaces
 * (base/workspace.h). Any number of threads may use one listing.
 *
 * If a mapped file is truncated, reading the mapping raises SIGBUS. So libshard maps only files of
 * its cache, to which no other user can write; a listing that SHARD_LISTING names is copied into
 * the cache.
 */
#pragma once

#include <stdbool.h>

#include "base/workspace.h"
#include "libshard.h"
#include "listing/codec.h"
#include "listing/format.h"

/* One of the two tables of names (format.h). The pointers point into the mapping. */
struct shard_table {
  const uint8_t *names, *index, *extents;
  const uint8_t *attributes, *attribute_index; /* NULL: the file has no attributes */
  uint64_t names_size, runs_size, attributes_size;
  uint64_t count, blocks, extent_count;
  uint32_t longest, order, seed; /* longest: bytes of the longest name */
  bool others;                   /* the table is "others", not "names" */
  bool made;                     /* SHARD_ATTRIBUTES_MADE */
};

/* Returns whether a checksum is equal to the one in the file. A unit test defines the macro. */
#ifdef SHARD_CHECKSUMS_IGNORED
#define shard_listing_sum_fits(sum, written) ((void)(sum), (void)(written), true)
#else
static inline bool shard_listing_sum_fits(uint32_t sum, uint32_t written) { return sum == written; }
#endif

/* Returns the most bytes that a block of names can have. longest: bytes of the longest name. */
static inline size_t shard_listing_block_most(uint32_t longest) {
  return SHARD_BLOCK_BYTES + (size_t)longest + 16;
}

/* Returns the most bytes that the record of a run can have. longest: bytes of the longest name. */
static inline size_t shard_listing_record_most(uint32_t longest) { return (size_t)longest + 32; }

/* Returns the bytes that `name` of a position needs: for the longest name, a NUL and a slash. */
static inline size_t shard_listing_room(const struct shard_table *t) {
  return (size_t)t->longest + 2;
}

/* Returns the number of blocks that `count` names, or the attributes of `count` names, fill. */
static inline uint64_t shard_listing_attribute_blocks(uint64_t count) {
  return count / SHARD_BLOCK_NAMES + (count % SHARD_BLOCK_NAMES > 0);
}

/* An open listing. The pointers point into the mapping, except the texts of the last line. */
struct shard_listing {
  const struct shard_header *header; /* at the start of the mapping */
  const uint8_t *map;
  size_t map_size;
  struct shard_table names, others;
  const uint8_t *dirs, *dirs_end, *tables, *tables_end, *samples;
  char *source, *options, *file; /* malloc'd */
};

/*
 * Opens the listing in an open file, as shard_listing_open() does. Keeps errno.
 * fd: a descriptor, which is closed in any case; a flock(2) of the descriptor lasts as long as the
 * mapping. Or a negative errno, which is returned.
 * file: the name of the file in messages; copied.
 * out: gets the listing, which the caller closes; not set on an error.
 * Errors: a negative errno of shard_listing_open(); -EISDIR.
 */
int shard_listing_map(int fd, const char *file, struct shard_listing **out);

/*
 * The functions shard_names_*() (names.c) read a table. Damage is -EBADMSG. A position's `name` is
 * the caller's buffer of shard_listing_room() bytes.
 */

/*
 * Declares a position `p` of table t, with a buffer that lasts until the end of the C block.
 * p.name is NULL if there is no memory.
 */
#define SHARD_POSITION(p, t)                                                                       \
  SHARD_WORKSPACE_OF(p##_name, shard_listing_room(t));                                             \
  struct shard_position p = {.name = p##_name}

/*
 * Puts p before position i <= count.
 * Errors: -EBADMSG; -ENOMEM: p->name is NULL.
 */
int shard_names_seek(struct shard_position *p, const struct shard_table *table, uint64_t i);

/*
 * Decodes the next name into p->name, and its length into p->length.
 * Returns 1; 0 at the end.
 * Errors: -EBADMSG.
 */
int shard_names_next(struct shard_position *p);

/*
 * Finds the first name that does not come before name[length] in the table's order.
 * name: in SHARD_ORDER_DIRECTORY the beginning of a directory's path.
 * Returns the name's position; the table's count if all names come before.
 * Errors: -EBADMSG, -ENOMEM.
 */
int64_t shard_names_lower_bound(const struct shard_table *table, const char *name, size_t length);

/*
 * Finds name[length].
 * Returns the name's position.
 * Errors: -ENOENT: the table does not have the name; -EBADMSG, -ENOMEM.
 */
int64_t shard_names_find(const struct shard_table *table, const char *name, size_t length);

/*
 * Finds the positions [*begin, *end) of the names below a directory. Not for SHARD_ORDER_BASENAME
 * and SHARD_ORDER_KEEP.
 * path: path[length] ends in a slash; "" is the root.
 * Errors: -EBADMSG, -ENOMEM.
 */
int shard_names_below(const struct shard_table *table, const char *path, size_t length,
                      uint64_t *begin, uint64_t *end);

/* The attributes of a block of names. Position i is element i % SHARD_BLOCK_NAMES of block
 * i / SHARD_BLOCK_NAMES. */
struct shard_attributes {
  uint64_t ino[SHARD_BLOCK_NAMES];
  uint8_t type[SHARD_BLOCK_NAMES];
};

/*
 * Decodes a block of attributes.
 * Errors: -EBADMSG: damage; the table has no such block; or the listing has no attributes.
 */
int shard_names_attributes(const struct shard_table *table, uint64_t block,
                           struct shard_attributes *out);

/*
 * Iterates over the directories that were walked.
 * pos: the state of the iteration; *pos is NULL at first.
 * out: gets the identity of the directory. The entry of a damaged directory has inode 0, which no
 * directory has, and is the last entry.
 * path: gets the path relative to the root, a text in the mapping.
 * Returns false at the end.
 */
bool shard_listing_dir(const struct shard_listing *listing, const uint8_t **pos,
                       struct shard_dir *out, const char **path);

/*
 * Iterates over the directories that are tables (markers.h).
 * pos: the state of the iteration; *pos is NULL at first.
 * format, path: get the table's format, and its path relative to the root: texts in the mapping.
 * Returns false at the end.
 */
bool shard_listing_table(const struct shard_listing *listing, const uint8_t **pos,
                         const char **format, const char **path);

/*
 * Finds the table that is name[length], or in which name[length] lies.
 * path: gets the table's path.
 * Returns the table's format; NULL: there is no such table.
 */
const char *shard_listing_table_of(const struct shard_listing *listing, const char *name,
                                   size_t length, const char **path);

/*
 * Reads the source and the options of a listing from an open file, without mapping the file. Only
 * the header's checksum is checked, so the texts may be wrong.
 * source, options: get texts that the caller frees; NULL on an error.
 * Errors: a negative errno of shard_listing_open(); -EISDIR.
 */
int shard_listing_peek(int fd, char **source, char **options);

/*
 * Returns a text for people about a negative errno of shard_listing_open(): static, or the text of
 * strerror(3).
 */
const char *shard_listing_strerror(int rc);

/*
 * Checks the checksums, the order of the names and the attributes. Reads the whole file.
 * Errors: -EBADMSG, -ENOMEM.
 */
int shard_listing_verify(const struct shard_listing *listing);
