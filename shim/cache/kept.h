/* SPDX-License-Identifier: MIT */
/*
 * kept.h - what an adapter keeps in the node's cache, such as a permutation: bytes that one process
 * makes, and others map. The functions are those of libshard.h (shard_kept_...).
 *
 * perm-KEY.perm is a header of SHARD_KEPT_HEADER bytes, then the bytes; perm-KEY.lock is flock'ed
 * by the process that makes them.
 */
#ifndef SHARD_CACHE_KEPT_H
#define SHARD_CACHE_KEPT_H

#include <stdint.h>

#include "cache/filenames.h"

#define SHARD_KEPT_MAGIC "SHRDKEPT"
#define SHARD_KEPT_VERSION 1

struct shard_kept_header {
  char magic[8];
  uint32_t version;
  uint32_t crc; /* CRC-32C of the bytes, seeded with that of this header with this field 0 */
  uint64_t size;
  char key[SHARD_CACHE_KEY + 7];
};

#endif
