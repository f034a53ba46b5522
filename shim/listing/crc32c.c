/* SPDX-License-Identifier: MIT */
#include "listing/crc32c.h"

#include <string.h>

#define POLY 0x82f63b78u /* reflected 0x1edc6f41 */

uint32_t shard_crc32c_soft(uint32_t crc, const void *data, size_t size) {
  const uint8_t *p = data;
  crc = ~crc;
  while (size--) {
    crc ^= *p++;
    for (int k = 0; k < 8; k++) {
      crc = (crc >> 1) ^ (POLY & (0u - (crc & 1)));
    }
  }
  return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_hard(uint32_t crc, const uint8_t *p,
                                                              size_t size) {
  uint64_t c = (uint32_t)~crc;
  for (; size >= 8; size -= 8, p += 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    c = __builtin_ia32_crc32di(c, word);
  }
  for (; size; size--) {
    c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
  }
  return ~(uint32_t)c;
}

uint32_t shard_crc32c(uint32_t crc, const void *data, size_t size) {
  if (__builtin_cpu_supports("sse4.2")) {
    return crc32c_hard(crc, data, size);
  }
  return shard_crc32c_soft(crc, data, size);
}
#else
uint32_t shard_crc32c(uint32_t crc, const void *data, size_t size) {
  return shard_crc32c_soft(crc, data, size);
}
#endif
