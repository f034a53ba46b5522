/* SPDX-License-Identifier: MIT */
/* size.h - numbers and sizes as people write them. Pure; errno may be changed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Parse a decimal number from `least` to `most`, digits and nothing else. false if it is none. */
bool shard_number_parse(const char *text, uint64_t least, uint64_t most, uint64_t *number);

/*
 * Parse a whole number of bytes, or of K, M, G, T or KiB, MiB, GiB, TiB (powers of 1,024), or KB,
 * MB, GB, TB (powers of 1,000). false if the text is no such size, or a size of 2^63 or more.
 */
bool shard_size_parse(const char *text, uint64_t *bytes);
