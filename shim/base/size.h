/* SPDX-License-Identifier: MIT */
/* size.h - sizes as people write them. */
#ifndef SHARD_BASE_SIZE_H
#define SHARD_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A whole number of bytes, or of K, M, G, T or KiB, MiB, GiB, TiB (powers of 1,024), or KB, MB, GB,
 * TB (powers of 1,000). false if text is nothing of the kind, or 2^63 or more.
 */
bool shard_size_parse(const char *text, uint64_t *bytes);

#endif
