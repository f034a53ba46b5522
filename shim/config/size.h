/* SPDX-License-Identifier: MIT */
/* size.h - sizes as people write them. */
#ifndef SHARD_SIZE_H
#define SHARD_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A whole number of bytes, or of K, M, G or T (powers of 1,024; KiB and the like too). false if
 * text is none, or too large.
 */
bool shard_size_parse(const char *text, uint64_t *bytes);

#endif
