/* SPDX-License-Identifier: MIT */
/* clock.h - the clocks of deadlines and of ages. Async-signal-safe; errno is left alone. */
#ifndef SHARD_BASE_CLOCK_H
#define SHARD_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds of the monotonic clock. */
static inline int64_t shard_clock_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Nanoseconds since 1970. */
static inline int64_t shard_clock_real_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

#endif
