/* SPDX-License-Identifier: MIT */
/* crc32c.h - CRC-32C (Castagnoli), RFC 3720 appendix B.4. Pure functions. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Continues a checksum over data[size], by the CPU's instruction if the CPU has it.
 * crc: the checksum so far; 0 at first.
 * Returns the new checksum.
 */
uint32_t shard_crc32c(uint32_t crc, const void *data, size_t size);

/* Does the same without that instruction; a test compares the two. */
uint32_t shard_crc32c_soft(uint32_t crc, const void *data, size_t size);
