/* SPDX-License-Identifier: MIT */
/*
 * unit.h - what the unit tests share. Each test_*.c is a program of its own; its first comment
 * says, after "Links:", which objects of shim/ and which libraries it needs.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Under a sanitizer a fraction will do, besides the whole without one; and with an emulated
 * processor (aarch64.sh), which sets it. */
#if defined(UNIT_PART)
#elif defined(__SANITIZE_THREAD__)
#define UNIT_PART 61
#elif defined(__SANITIZE_ADDRESS__)
#define UNIT_PART 7
#else
#define UNIT_PART 1
#endif

/* xorshift64* (Marsaglia; Vigna): the same numbers in every run. */
static inline uint64_t unit_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545f4914f6cdd1dULL;
}
