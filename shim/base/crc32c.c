/* SPDX-License-Identifier: MIT */
#include "base/crc32c.h"

#include <string.h>

/* The remainder of each nibble, divided by the reflected polynomial 0x82f63b78. */
static const uint32_t nibbles[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

uint32_t shard_crc32c_soft(uint32_t crc, const void *data, size_t size) {
  const uint8_t *p = data;
  crc = ~crc;
  while (size--) {
    crc ^= *p++;
    crc = (crc >> 4) ^ nibbles[crc & 15];
    crc = (crc >> 4) ^ nibbles[crc & 15];
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
