/* SPDX-License-Identifier: MIT */
/*
 * format.h - the listing file, version 2.
 *
 *   +--------+--------------+-------+-------------+-------+------------------+------+---------+
 *   | header | names        | index | attributes  | index | the same four    | dirs | dirs by |
 *   | 512 B  | K per block  |       | (optional)  |       | for "others"     |      | inode   |
 *   +--------+--------------+-------+-------------+-------+------------------+------+---------+
 *
 * All integers are little-endian. There are two tables of names, each in the listing's order:
 * "names", the entries that count and are shared out, and "others", what a plain listing of the
 * directories shows besides: sub-directories, links to directories, and names that do not match
 * `include`. The second, and the attributes of both, are there only if the listing was built with
 * attributes=1, as the shard view needs it. The file is written once, front to back, the header
 * last, under a temporary name, and renamed: a reader never sees half a file, and a file never
 * changes afterwards.
 *
 * A table of n names has ceil(n / K) blocks. A block of names (front coding with shared prefix and
 * suffix, after Witten, Moffat and Bell, "Managing Gigabytes", section 4.1; the suffix is ours,
 * because benchmark names are img_0000001_of_1000000.jpeg: only the middle changes):
 *   u8      kind            0, the only kind of version 2
 *   varint  length, bytes   the first name, whole
 *   then for each further name:
 *   varint  prefix          bytes shared with the start of the name before
 *   varint  suffix          bytes shared with its end (not overlapping the prefix)
 *   varint  middle, bytes   what is new
 * A block of attributes, for the same K names:
 *   runs until K names are told: u8 d_type, varint how many names have it
 *   varint  d_ino of the first name
 *   runs until K - 1 names are told: varint zigzag(d_ino less the one before), varint how often
 * varint is LEB128. zigzag maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
 *
 * An index has an entry of 12 bytes for each block: u64 offset in its section, u32 CRC-32C of the
 * block, seeded with its number and table (a block copied over another one is seen). One
 * more entry holds the end and no checksum. Offsets are ascending. Each index, dirs and dirs by
 * inode have a checksum as a whole, and so has the header with its own field zero.
 */
#ifndef SHARD_FORMAT_H
#define SHARD_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_MAGIC "SHRDLST\n"
#define SHARD_FORMAT_VERSION 2
#define SHARD_ENDIAN 0x01020304u
#define SHARD_BLOCK_NAMES 64
#define SHARD_BLOCK_FRONT 0
#define SHARD_SEED_NAMES 1u /* plus the block's number */
#define SHARD_SEED_OTHERS 0x80000001u
#define SHARD_INDEX_ENTRY 12 /* bytes */

/* A section of the file: where it begins, its bytes, its CRC-32C. size 0: absent. */
struct shard_section {
  uint64_t offset;
  uint64_t size;
  uint32_t crc; /* not used for the blocks section: each block has its own */
  uint32_t reserved;
};

struct shard_table_header {
  uint64_t count;  /* names */
  uint64_t blocks; /* ceil(count / K) */
  struct shard_section names, index, attributes, attribute_index;
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
  uint32_t attributes;    /* 1: there are attributes, and "others" is complete */
};
static_assert(sizeof(struct shard_section) == 24, "section layout");
static_assert(offsetof(struct shard_header, names) == 232, "header layout");
static_assert(sizeof(struct shard_header) == 512, "header layout");

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
