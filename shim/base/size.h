/* SPDX-License-Identifier: MIT */
/* size.h - sizes as people write them. Pure; errno may be changed. */
#ifndef SHARD_BASE_SIZE_H
#define SHARD_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Parse a whole number of bytes, or of K, M, G, T or KiB, MiB, GiB, TiB (powers of 1,024), or KB,
 * MB, GB, TB (powers of 1,000). false if the text is no such size, or a size of 2^63 or more.
 */
bool shard_size_parse(const char *text, uint64_t *bytes);

#endif
