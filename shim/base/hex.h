/* SPDX-License-Identifier: MIT */
/* hex.h - prints and reads hexadecimal digits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/* Prints bytes[size] as lower-case digits and a NUL into to[2 * size + 1]. */
static inline void shard_hex_print(char *to, const uint8_t *bytes, size_t size) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < size; i++) {
    *to++ = digits[bytes[i] >> 4];
    *to++ = digits[bytes[i] & 15];
  }
  *to = 0;
}

/* Returns the value of a digit, in lower or upper case; -1 if c is no digit. */
static inline int shard_hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * Decodes %XX in text[length], in place.
 * plus: decode + as a blank, too.
 * Returns the new length. No NUL is added.
 * Errors: -1: a % is not followed by two digits.
 */
static inline ssize_t shard_hex_unescape(char *text, size_t length, bool plus) {
  size_t to = 0;
  for (size_t at = 0; at < length;) {
    const char *mark = memchr(text + at, '%', length - at);
    size_t plain = mark ? (size_t)(mark - text) - at : length - at;
    memmove(text + to, text + at, plain);
    for (char *c = text + to; plus && (c = memchr(c, '+', (size_t)(text + to + plain - c)));) {
      *c = ' ';
    }
    to += plain;
    at += plain;
    if (mark) {
      int high = at + 2 < length ? shard_hex_digit(text[at + 1]) : -1;
      int low = high < 0 ? -1 : shard_hex_digit(text[at + 2]);
      if (low < 0) {
        return -1;
      }
      text[to++] = (char)(high << 4 | low);
      at += 3;
    }
  }
  return (ssize_t)to;
}
