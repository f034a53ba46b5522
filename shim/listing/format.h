/* SPDX-License-Identifier: MIT */
/*
 * format.h - the listing file, version 1.
 *
 *   +--------+----------------------+---------+--------+------+--------+---------+
 *   | header | blocks               | offsets | crcs   | dirs | types  | inodes  |
 *   | 512 B  | K names in each      | u64 x   | u32 x  | text | (opt.) | (opt.)  |
 *   |        | (the last: the rest) | (n + 1) | n      |      |        |         |
 *   +--------+----------------------+---------+--------+------+--------+---------+
 *
 * All integers are little-endian. n = ceil(count / K) blocks. The file is written once,
 * front to back, the header last, under a temporary name, and renamed: a reader never sees
 * half a file, and a file never changes afterwards.
 *
 * A block (front coding with shared prefix and suffix, after Witten, Moffat and Bell,
 * "Managing Gigabytes", section 4.1; the suffix is ours, because benchmark names are
 * img_0000001_of_1000000.jpeg: only the middle changes):
 *   u8      kind            0, the only kind of version 1
 *   varint  length, bytes   the first name, whole
 *   then for each further name:
 *   varint  prefix          bytes shared with the start of the name before
 *   varint  suffix          bytes shared with its end (not overlapping the prefix)
 *   varint  middle, bytes   what is new
 * varint is LEB128.
 *
 * Checks: a CRC-32C for each block, seeded with the block's number (a block copied over another
 * one is seen); one for the offsets, the crcs, the dirs, types and inodes columns; and one for the
 * header with its own field zero. Offsets are ascending and inside the blocks section.
 */
#ifndef SHARD_FORMAT_H
#define SHARD_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_MAGIC "SHRDLST\n"
#define SHARD_FORMAT_VERSION 1
#define SHARD_ENDIAN 0x01020304u
#define SHARD_BLOCK_NAMES 64
#define SHARD_BLOCK_FRONT 0

/* A section of the file: where it begins, its bytes, its CRC-32C. size 0: absent. */
struct shard_section {
  uint64_t offset;
  uint64_t size;
  uint32_t crc; /* not used for the blocks section: each block has its own */
  uint32_t reserved;
};

struct shard_header {
  char magic[8];
  uint32_t version;     /* SHARD_FORMAT_VERSION */
  uint32_t endian;      /* SHARD_ENDIAN as the writer stored it */
  uint32_t header_crc;  /* CRC-32C of the header with this field 0 */
  uint32_t block_names; /* K: names in a block */
  uint64_t count;       /* entries */
  uint64_t blocks;      /* ceil(count / K) */
  uint64_t file_size;   /* bytes, the whole file */
  uint32_t order;       /* 0 path, 1 basename then path */
  uint32_t utf8;        /* 1: every name is valid UTF-8 */
  uint32_t min_depth;   /* slashes in a name */
  uint32_t max_depth;   /* ditto */
  uint32_t longest;     /* bytes of the longest name */
  uint32_t dotted;      /* 1: some name has a component that begins with '.' */
  uint64_t directories; /* walked */
  uint64_t dirs_hidden; /* see libshard.h */
  uint64_t duplicates;  /* see libshard.h */
  int64_t listed_sec;   /* when the walk began, by the clock of the host */
  int64_t listed_nsec;
  uint8_t bytes_used[32]; /* bitmap of the bytes that occur in names */
  uint8_t digest[32];     /* SHA-256 of the names, each followed by NUL */
  char suffix[64];        /* longest common suffix, NUL-padded */
  struct shard_section names, offsets, crcs, dirs, types, inodes;
  uint64_t dir_links; /* links to directories seen and not walked through */
  uint8_t reserved[120];
};
static_assert(sizeof(struct shard_section) == 24, "section layout");
static_assert(offsetof(struct shard_header, names) == 240, "header layout");
static_assert(sizeof(struct shard_header) == 512, "header layout");

/*
 * The dirs section: the identity of what was listed.
 *   source NUL options NUL, then for each directory walked, in walk order, the root first:
 *   struct shard_dir, followed by its path relative to the root and a NUL ("" for the root).
 */
struct shard_dir {
  uint64_t dev, ino;
  int64_t mtime_sec;
  int64_t mtime_nsec;
};
static_assert(sizeof(struct shard_dir) == 32, "dir layout");

#endif
