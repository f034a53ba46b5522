/* SPDX-License-Identifier: MIT */
/* clock.h - the kernel's clocks, for deadlines and ages: libfaketime may be preloaded, and files
 * have the kernel's times. Async-signal-safe; errno is left alone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline void shard_clock_read(clockid_t clock, struct timespec *t) {
  syscall(SYS_clock_gettime, clock, t);
}

/* Milliseconds of the monotonic clock. */
static inline int64_t shard_clock_ms(void) {
  struct timespec t;
  shard_clock_read(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Seconds of the monotonic clock. */
static inline double shard_clock_seconds(void) {
  struct timespec t;
  shard_clock_read(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline bool shard_clock_same(struct timespec a, struct timespec b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Nanoseconds since 1970. */
static inline int64_t shard_clock_real_ns(void) {
  struct timespec t;
  shard_clock_read(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
