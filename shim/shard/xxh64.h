/* SPDX-License-Identifier: MIT */
/*
 * xxh64.h - the 64-bit hash that spreads names over ranks: XXH64 as specified by Yann Collet
 * (xxHash, doc/xxhash_spec.md), so that anybody can compute a name's rank with any xxHash library.
 */
#ifndef SHARD_XXH64_H
#define SHARD_XXH64_H

#include <stddef.h>
#include <stdint.h>

uint64_t shard_xxh64(const void *data, size_t size, uint64_t seed);

#endif
