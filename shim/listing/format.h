/* SPDX-License-Identifier: MIT */
/*
 * format.h - defines the format of a listing file, version 6.
 *
 *   +--------+--------+-------+---------+------------+-------+------------------+------+
 *   | header | blocks | index | extents | attributes | index | the same five    | dirs |
 *   | 632 B  |        |       |         | (optional) |       | for "others"     |      |
 *   +--------+--------+-------+---------+------------+-------+------------------+------+
 *
 * All integers are little-endian. There are two tables of names, each in the listing's order. The
 * table "names" has the entries, which the ranks share. The table "others" has the other names that
 * a plain listing of the directories shows: sub-directories, links to directories, and names that
 * do not match `include`. Only a listing built with attributes=1, for the shard view, has "others",
 * and attributes of both tables. "others" has order PATH where "names" has order DIRECTORY or
 * SAMPLE. The writer writes a temporary file once, front to back, the header last, and renames the
 * file: a reader never sees half a file, and a file never changes.
 *
 * The positions of a table are cut into extents, of two kinds: runs, and blocks.
 *
 * A run is a sequence of names that differ in one number of fixed width, which goes up by one. A
 * whole dataset such as img_0000001_of_1000000.jpeg is one run of some 70 bytes. The record of a
 * run is
 *   varint  length, bytes   the part of the names before the number
 *   varint  width           digits of the number, leading zeros included; at most 18
 *   varint  number          the number in the first name
 *   varint  length, bytes   the part of the names behind the number
 *
 * A block has K names. The last block of an extent may have fewer names, and an extent ends at a
 * block that has reached SHARD_BLOCK_BYTES. Names are coded by the prefix and suffix that they
 * share with the name before (front coding after Witten, Moffat and Bell, "Managing Gigabytes",
 * section 4.1; the suffix is an addition, because in numbered names only the middle changes):
 *   u8      kind            0, the only kind of version 6
 *   varint  length, bytes   the first name, whole
 *   then for each further name:
 *   varint  prefix          bytes shared with the start of the name before
 *   varint  suffix          bytes shared with the end of the name before, without the prefix
 *   varint  middle, bytes   the rest
 *
 * A block of attributes, for positions n * K to n * K + K - 1 of the table:
 *   pairs for K names: u8 d_type, varint how many names in a row have this d_type
 *   varint  d_ino of the first name
 *   pairs for K - 1 names: varint zigzag(d_ino less the d_ino before), varint how often in a row
 * varint is LEB128. zigzag maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
 *
 * An index has an entry of 12 bytes for each block: u64 offset in the index's section, u32 CRC-32C
 * of the block. The checksum is seeded with the block's number and table, so that a block in place
 * of another block is noticed, and with the file's salt, so that a block of another file is
 * noticed. A last entry holds the end and no checksum. Offsets are ascending. The extents section
 * is an array of struct shard_extent, in the order of positions; the records of the runs follow the
 * array. Each of the sections index, extents, dirs, tables and sample blocks has a checksum as a
 * whole. So has the header, computed with the checksum field zero.
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
#define SHARD_BLOCK_BYTES 4096 /* a block that has reached this size gets no more names */
/*
 * The seed of a block's checksum is the seed of the table, plus the salt, plus the block's number.
 * The seed of an extent's checksum is the seed of the table, plus the salt, plus SHARD_SEED_EXTENT,
 * plus the extent's number.
 */
#define SHARD_SEED_NAMES 1u
#define SHARD_SEED_OTHERS 0x80000001u
#define SHARD_SEED_EXTENT 0x40000000u
#define SHARD_SEED_SAMPLES 0x20000001u
#define SHARD_RUN_DIGITS 18  /* at most: a number of 18 digits fits into 64 bits */
#define SHARD_INDEX_ENTRY 12 /* bytes */

/* A section of the file. */
struct shard_section {
  uint64_t offset; /* bytes from the start of the file */
  uint64_t size;   /* bytes; 0: the section is absent */
  uint32_t crc;    /* CRC-32C of the section; not for blocks, whose checksums are in the index */
  uint32_t reserved;
};

/* The numbers and sections of a table of names. */
struct shard_table_header {
  uint64_t count;   /* names */
  uint64_t blocks;  /* blocks of names */
  uint64_t extents; /* entries in the array of extents */
  struct shard_section names, index, extent, attributes, attribute_index;
};

/*
 * Positions [first, first + count) of a table. size 0: the extent is of blocks, and `where` is the
 * number of the first block. Else the extent is a run, and its record is `size` bytes at offset
 * `where` of the records.
 */
struct shard_extent {
  uint64_t first, count, where;
  uint32_t size;
  uint32_t crc; /* seeded CRC-32C of the fields above, then of the record */
};
static_assert(sizeof(struct shard_extent) == 32, "extent layout");

/* The attributes (d_type and d_ino) of a listing. */
enum shard_attributes_kept {
  SHARD_ATTRIBUTES_NONE,
  SHARD_ATTRIBUTES_STORED,
  /* The source has no attributes, so the reader makes them: each name of "names" is a file, each
   * name of "others" is a directory (those above the names), and the positions tell the inodes. */
  SHARD_ATTRIBUTES_MADE
};

/* The header of the file. */
struct shard_header {
  char magic[8];
  uint32_t version;     /* SHARD_FORMAT_VERSION */
  uint32_t endian;      /* SHARD_ENDIAN in the writer's byte order */
  uint32_t header_crc;  /* CRC-32C of the header with this field 0 */
  uint32_t block_names; /* K: names in a block */
  uint64_t file_size;   /* bytes of the whole file */
  uint32_t order;       /* SHARD_ORDER_ of codec.h */
  /* The next five fields, and bytes_used, digest and suffix, are of "names" only. */
  uint32_t utf8;        /* 1: every name is valid UTF-8 */
  uint32_t min_depth;   /* fewest slashes in a name */
  uint32_t max_depth;   /* most slashes in a name */
  uint32_t longest;     /* bytes of the longest name */
  uint32_t dotted;      /* 1: some name has a component that begins with '.' */
  uint64_t directories; /* directories walked; 0: the source is no directory */
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
  uint32_t salt;               /* a random number of this file */
  uint32_t sample;             /* enum shard_sample */
  struct shard_section tables; /* format NUL path NUL for each directory that is a table */
  /* Unless `sample` is FILE: an array of struct shard_sample_block, each for SHARD_SAMPLE_FILES
   * names; the number of samples; the number of files in the largest sample. */
  struct shard_section sample_blocks;
  uint64_t samples, largest;
  uint32_t sets; /* 1: nearly all files come in sets with one stem; only where `sample` is FILE */
  uint32_t reserved;
};
static_assert(sizeof(struct shard_section) == 24, "section layout");
static_assert(offsetof(struct shard_header, names) == 232, "header layout");
static_assert(sizeof(struct shard_header) == 632, "header layout");

/* Block n: the names at positions n * SHARD_SAMPLE_FILES and on that are the first of a sample. */
#define SHARD_SAMPLE_FILES 512
struct shard_sample_block {
  uint64_t before; /* number of samples that begin before these positions */
  uint64_t bits[SHARD_SAMPLE_FILES / 64];
  uint32_t crc; /* CRC-32C, seeded by SHARD_SEED_SAMPLES, salt and the block's number */
  uint32_t reserved;
};
static_assert(sizeof(struct shard_sample_block) == 80, "sample block layout");

/*
 * The dirs section holds the identity of the source:
 *   source NUL options NUL, then for each directory walked, ordered by path, the root first:
 *   struct shard_dir, the directory's path relative to the root ("" for the root), NUL.
 */
struct shard_dir {
  uint64_t ino;
  int64_t mtime_sec, mtime_nsec;
  int64_t ctime_sec, ctime_nsec;
  uint64_t image; /* the number of the read-only image (identity.h), or 0 */
};
static_assert(sizeof(struct shard_dir) == 48, "dir layout");
