/* SPDX-License-Identifier: MIT */
/* hex.h - bytes as hexadecimal digits. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Print bytes[size] in lower case into to[2 * size + 1]. */
static inline void shard_hex_print(char *to, const uint8_t *bytes, size_t size) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < size; i++) {
    *to++ = digits[bytes[i] >> 4];
    *to++ = digits[bytes[i] & 15];
  }
  *to = 0;
}

/* The value of a digit; -1: it is none. */
static inline int shard_hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
