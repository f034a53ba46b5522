/* SPDX-License-Identifier: MIT */
/* crc32c.h - CRC-32C (Castagnoli), RFC 3720 appendix B.4. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Continue checksum `crc` (0 at first) over data[size]. Uses the CPU's instruction if it has one.
 * Pure; safe in any context.
 */
uint32_t shard_crc32c(uint32_t crc, const void *data, size_t size);

/* The same without that instruction. A test compares the two. */
uint32_t shard_crc32c_soft(uint32_t crc, const void *data, size_t size);
