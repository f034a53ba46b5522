/* SPDX-License-Identifier: MIT */
/*
 * format.h - the listing file, version 3.
 *
 *   +--------+--------+-------+---------+------------+-------+------------------+------+---------+
 *   | header | blocks | index | extents | attributes | index | the same five    | dirs | dirs by |
 *   | 576 B  |        |       |         | (optional) |       | for "others"     |      | inode   |
 *   +--------+--------+-------+---------+------------+-------+------------------+------+---------+
 *
 * All integers are little-endian. There are two tables of names, each in the listing's order:
 * "names", the entries that count and are shared out, and "others", what a plain listing of the
 * directories shows besides: sub-directories, links to directories, and names that do not match
 * `include`. The second, and the attributes of both, are there only if the listing was built with
 * attributes=1, as the shard view needs it. The file is written once, front to back, the header
 * last, under a temporary name, and renamed: a reader never sees half a file, and a file never
 * changes afterwards.
 *
 * The positions of a table are cut into extents, of two kinds:
 *
 * A run is names that differ in one number of fixed width, which goes up by one: all of a dataset
 * such as img_0000001_of_1000000.jpeg is one run, of some 70 bytes. Its record is
 *   varint  length, bytes   what stands before the number
 *   varint  width           digits of the number, leading zeros included; at most 18
 *   varint  number          the first one
 *   varint  length, bytes   what stands behind it
 *
 * All else is blocks of K names (the last of an extent may have fewer), coded by shared prefix and
 * suffix (front coding after Witten, Moffat and Bell, "Managing Gigabytes", section 4.1; the suffix
 * is ours, because in numbered names only the middle changes):
 *   u8      kind            0, the only kind of version 3
 *   varint  length, bytes   the first name, whole
 *   then for each further name:
 *   varint  prefix          bytes shared with the start of the name before
 *   varint  suffix          bytes shared with its end (not overlapping the prefix)
 *   varint  middle, bytes   what is new
 *
 * A block of attributes, for positions n * K to n * K + K - 1 of the table:
 *   runs until K names are told: u8 d_type, varint how many names have it
 *   varint  d_ino of the first name
 *   runs until K - 1 names are told: varint zigzag(d_ino less the one before), varint how often
 * varint is LEB128. zigzag maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
 *
 * An index has an entry of 12 bytes for each block: u64 offset in its section, u32 CRC-32C of the
 * block, seeded with its number and table (a block copied over another one is seen). One
 * more entry holds the end and no checksum. Offsets are ascending. The extents section is an array
 * of struct shard_extent, in the order of positions, and behind it the records of the runs. Each
 * index, extents, dirs and dirs by inode have a checksum as a whole, and so has the header with its
 * own field zero.
 */
#ifndef SHARD_LISTING_FORMAT_H
#define SHARD_LISTING_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_MAGIC "SHRDLST\n"
#define SHARD_FORMAT_VERSION 3
#define SHARD_ENDIAN 0x01020304u
#define SHARD_BLOCK_NAMES 64
#define SHARD_BLOCK_FRONT 0
#define SHARD_SEED_NAMES 1u /* plus the block's number */
#define SHARD_SEED_OTHERS 0x80000001u
#define SHARD_SEED_EXTENT 0x40000000u /* and one of those above, plus the extent's number */
#define SHARD_RUN_DIGITS 18           /* a number that fits into 64 bits */
#define SHARD_INDEX_ENTRY 12          /* bytes */

/* A section of the file: where it begins, its bytes, its CRC-32C. size 0: absent. */
struct shard_section {
  uint64_t offset;
  uint64_t size;
  uint32_t crc; /* not used for the blocks section: each block has its own */
  uint32_t reserved;
};

struct shard_table_header {
  uint64_t count;   /* names */
  uint64_t blocks;  /* of names; an index entry for each */
  uint64_t extents; /* entries of the array */
  struct shard_section names, index, extent, attributes, attribute_index;
};

/*
 * Positions [first, first + count) of a table. Either of blocks (size 0), of which `where` is the
 * first one's number; or a run, whose record is the `size` bytes from `where` behind the array.
 */
struct shard_extent {
  uint64_t first, count, where;
  uint32_t size;
  uint32_t crc; /* CRC-32C of the fields above, then of the record; seeded */
};
static_assert(sizeof(struct shard_extent) == 32, "extent layout");

/* MADE: a text's names have no inode and type: they are files, numbered by their position, and the
 * others are the directories on the way to them. */
enum shard_attributes_kept {
  SHARD_ATTRIBUTES_NONE,
  SHARD_ATTRIBUTES_STORED,
  SHARD_ATTRIBUTES_MADE
};

struct shard_header {
  char magic[8];
  uint32_t version;     /* SHARD_FORMAT_VERSION */
  uint32_t endian;      /* SHARD_ENDIAN as the writer stored it */
  uint32_t header_crc;  /* CRC-32C of the header with this field 0 */
  uint32_t block_names; /* K: names in a block */
  uint64_t file_size;   /* bytes, the whole file */
  uint32_t order;       /* 0 path, 1 basename then path, 2 as in the manifest */
  uint32_t utf8;        /* 1: every name is valid UTF-8; this and the next five of "names" only */
  uint32_t min_depth;   /* slashes in a name */
  uint32_t max_depth;   /* ditto */
  uint32_t longest;     /* bytes of the longest name */
  uint32_t dotted;      /* 1: some name has a component that begins with '.' */
  uint64_t directories; /* walked */
  uint64_t dirs_hidden; /* see libshard.h */
  uint64_t dir_links;   /* links to directories seen and not walked through */
  uint64_t duplicates;  /* see libshard.h */
  int64_t listed_sec;   /* when the walk began, by the clock of the host */
  int64_t listed_nsec;
  uint8_t bytes_used[32]; /* bitmap of the bytes that occur in names */
  uint8_t digest[32];     /* SHA-256 of the names, each followed by NUL */
  char suffix[64];        /* longest common suffix, NUL-padded */
  struct shard_table_header names, others;
  struct shard_section dirs, dirs_by_inode;
  uint32_t longest_other; /* bytes of the longest name of "others" */
  uint32_t attributes;    /* enum shard_attributes_kept; not NONE: "others" is complete */
};
static_assert(sizeof(struct shard_section) == 24, "section layout");
static_assert(offsetof(struct shard_header, names) == 232, "header layout");
static_assert(sizeof(struct shard_header) == 576, "header layout");

/*
 * The dirs section: the identity of what was listed.
 *   source NUL options NUL, then for each directory walked, in walk order, the root first:
 *   struct shard_dir, followed by its path relative to the root and a NUL ("" for the root).
 * dirs_by_inode: for each, its offset in the dirs section (u64), ordered by ino, then dev.
 */
struct shard_dir {
  uint64_t dev, ino;
  int64_t mtime_sec;
  int64_t mtime_nsec;
};
static_assert(sizeof(struct shard_dir) == 32, "dir layout");

#endif
