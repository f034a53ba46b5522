/* SPDX-License-Identifier: MIT */
/*
 * shard.h - which positions of a listing belong to a rank. Pure functions.
 */
#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H

#include <stdint.h>

#include "config/config.h"

/*
 * The rank that owns position i of n (i < n) in a world of `size` ranks. Every position has
 * exactly one owner; shares differ by at most one; the answer depends on the arguments alone.
 * range:  positions [floor(r n / P), floor((r + 1) n / P)) belong to rank r.
 * stride: position i belongs to rank i mod P.
 */
uint32_t shard_owner(enum shard_strategy strategy, uint64_t i, uint64_t n, uint32_t size);

#endif
