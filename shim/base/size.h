/* SPDX-License-Identifier: MIT */
/* size.h - numbers and sizes as people write them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Parses a decimal number from `least` to `most`: digits and nothing else.
 * Returns false if text is no such number.
 */
bool shard_number_parse(const char *text, uint64_t least, uint64_t most, uint64_t *number);

/*
 * Parses a whole number of bytes; of K, M, G, T or KiB, MiB, GiB, TiB (powers of 1,024); or of KB,
 * MB, GB, TB (powers of 1,000).
 * Returns false if text is no such size, or is 2^63 or more.
 */
bool shard_size_parse(const char *text, uint64_t *bytes);
