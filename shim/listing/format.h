/* SPDX-License-Identifier: MIT */
/*
 * format.h - the listing file, version 6.
 *
 *   +--------+--------+-------+---------+------------+-------+------------------+------+
 *   | header | blocks | index | extents | attributes | index | the same five    | dirs |
 *   | 632 B  |        |       |         | (optional) |       | for "others"     |      |
 *   +--------+--------+-------+---------+------------+-------+------------------+------+
 *
 * All integers are little-endian. There are two tables of names, each in the listing's order.
 * "names" are the entries, which the ranks share. "others" is what a plain listing of the
 * directories shows besides: sub-directories, links to directories, and names that do not match
 * `include`. Only a listing built with attributes=1, for the shard view, has "others", and
 * attributes of both tables. The writer writes a temporary file once, front to back, the header
 * last, and renames it: a reader never sees half a file, and a file never changes.
 *
 * The positions of a table are cut into extents, of two kinds:
 *
 * A run is names that differ in one number of fixed width that goes up by one. A whole dataset such
 * as img_0000001_of_1000000.jpeg is one run of some 70 bytes. Its record is
 *   varint  length, bytes   what stands before the number
 *   varint  width           digits of the number, leading zeros included; at most 18
 *   varint  number          the number in the first name
 *   varint  length, bytes   what stands behind the number
 *
 * All else is blocks of K names (the last of an extent may have fewer, and an extent ends when a
 * block has SHARD_BLOCK_BYTES), coded by shared prefix and
 * suffix (front coding after Witten, Moffat and Bell, "Managing Gigabytes", section 4.1; the suffix
 * is ours, because in numbered names only the middle changes):
 *   u8      kind            0, the only kind of version 6
 *   varint  length, bytes   the first name, whole
 *   then for each further name:
 *   varint  prefix          bytes shared with the start of the name before
 *   varint  suffix          bytes shared with its end, without the prefix
 *   varint  middle, bytes   the rest
 *
 * A block of attributes, for positions n * K to n * K + K - 1 of the table:
 *   pairs for K names: u8 d_type, varint how many names in a row have it
 *   varint  d_ino of the first name
 *   pairs for K - 1 names: varint zigzag(d_ino less the d_ino before), varint how often in a row
 * varint is LEB128. zigzag maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
 *
 * An index has an entry of 12 bytes for each block: u64 offset in its section, u32 CRC-32C of the
 * block. The checksum is seeded with the block's number and table, so that one block in place of
 * another is noticed, and with the file's salt, so that another file's in its place is. A last
 * entry holds the end and no checksum. Offsets are ascending. The extents section is an array of
 * struct shard_extent, in the order of positions, and behind it the records of the runs. Indexes,
 * extents and dirs have each a checksum as a whole; so has the header, computed with its checksum
 * field zero.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_MAGIC "SHRDLST\n"
#define SHARD_FORMAT_VERSION 6
#define SHARD_ENDIAN 0x01020304u
#define SHARD_BLOCK_NAMES 64
#define SHARD_BLOCK_FRONT 0
#define SHARD_BLOCK_BYTES 4096 /* a block that has as many has no more names */
/* The seed of a block's checksum: its table's, plus the salt, plus the block's number. An extent's:
 * the same, plus SHARD_SEED_EXTENT, with the extent's number. */
#define SHARD_SEED_NAMES 1u
#define SHARD_SEED_OTHERS 0x80000001u
#define SHARD_SEED_EXTENT 0x40000000u
#define SHARD_SEED_SAMPLES 0x20000001u
#define SHARD_RUN_DIGITS 18  /* their number fits into 64 bits */
#define SHARD_INDEX_ENTRY 12 /* bytes */

/* A section of the file: where it begins, its bytes, its CRC-32C. size 0: absent. */
struct shard_section {
  uint64_t offset;
  uint64_t size;
  uint32_t crc; /* not of blocks: each block has its own in the index */
  uint32_t reserved;
};

struct shard_table_header {
  uint64_t count;   /* names */
  uint64_t blocks;  /* blocks of names */
  uint64_t extents; /* entries in the array of extents */
  struct shard_section names, index, extent, attributes, attribute_index;
};

/*
 * Positions [first, first + count) of a table. size 0: blocks, the first of number `where`. Else a
 * run: its record is `size` bytes at offset `where` of the records.
 */
struct shard_extent {
  uint64_t first, count, where;
  uint32_t size;
  uint32_t crc; /* CRC-32C, seeded: of the fields above, then of the record */
};
static_assert(sizeof(struct shard_extent) == 32, "extent layout");

/* MADE: the source has no inodes and types. The reader takes each name for a file and each of the
 * others, the directories on the way to names, for a directory; positions serve as inodes. */
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
  uint32_t order;       /* SHARD_ORDER_ of codec.h */
  /* These five, and bytes_used, digest and suffix, are of "names" only. */
  uint32_t utf8;        /* 1: every name is valid UTF-8 */
  uint32_t min_depth;   /* fewest slashes in a name */
  uint32_t max_depth;   /* most slashes in a name */
  uint32_t longest;     /* bytes of the longest name */
  uint32_t dotted;      /* 1: some name has a component that begins with '.' */
  uint64_t directories; /* those walked */
  uint64_t dirs_hidden; /* see libshard.h */
  uint64_t dir_links;   /* links to directories; the walk did not follow them */
  uint64_t duplicates;  /* see libshard.h */
  int64_t listed_sec;   /* when the walk began, by the clock of the host */
  int64_t listed_nsec;
  uint8_t bytes_used[32]; /* bitmap of the bytes that occur in names */
  uint8_t digest[32];     /* SHA-256 of the names, each followed by NUL */
  char suffix[64];        /* longest common suffix, NUL-padded */
  struct shard_table_header names, others;
  struct shard_section dirs;
  uint32_t longest_other;      /* bytes of the longest name of "others" */
  uint32_t attributes;         /* enum shard_attributes_kept; NONE: there are no "others" */
  uint32_t salt;               /* random: of this file alone */
  uint32_t sample;             /* enum shard_sample */
  struct shard_section tables; /* format NUL path NUL for each directory that is a table */
  /* Unless `sample` is FILE: an array of struct shard_sample_block, for SHARD_SAMPLE_FILES names
   * each; how many samples there are, and the files of the largest. */
  struct shard_section sample_blocks;
  uint64_t samples, largest;
  uint32_t sets; /* 1: nearly all files come in sets of one stem; only where `sample` is FILE */
  uint32_t reserved;
};
static_assert(sizeof(struct shard_section) == 24, "section layout");
static_assert(offsetof(struct shard_header, names) == 232, "header layout");
static_assert(sizeof(struct shard_header) == 632, "header layout");

/* Which of the names at positions n * SHARD_SAMPLE_FILES and on begin a sample. */
#define SHARD_SAMPLE_FILES 512
struct shard_sample_block {
  uint64_t before; /* samples that begin before these positions */
  uint64_t bits[SHARD_SAMPLE_FILES / 64];
  uint32_t crc; /* CRC-32C, seeded by SHARD_SEED_SAMPLES, salt and the block's number */
  uint32_t reserved;
};
static_assert(sizeof(struct shard_sample_block) == 80, "sample block layout");

/*
 * The dirs section: the identity of what was listed.
 *   source NUL options NUL, then for each directory walked, ordered by path, the root first:
 *   struct shard_dir, its path relative to the root ("" for the root), NUL.
 */
struct shard_dir {
  uint64_t ino;
  int64_t mtime_sec, mtime_nsec;
  int64_t ctime_sec, ctime_nsec;
  uint64_t image; /* the number of a read-only image (identity.h), or 0 */
};
static_assert(sizeof(struct shard_dir) == 48, "dir layout");
