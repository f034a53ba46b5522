/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the kernel's clocks, for deadlines and ages. libfaketime may replace libc's clocks, but
 * files have the kernel's times. Async-signal-safe; keeps errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Reads a clock of clock_gettime(2). */
static inline void shard_clock_read(clockid_t clock, struct timespec *t) {
  syscall(SYS_clock_gettime, clock, t);
}

/* Returns the monotonic clock in milliseconds. */
static inline int64_t shard_clock_ms(void) {
  struct timespec t;
  shard_clock_read(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Returns the monotonic clock in seconds. */
static inline double shard_clock_seconds(void) {
  struct timespec t;
  shard_clock_read(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Returns whether two times are equal. */
static inline bool shard_clock_same(struct timespec a, struct timespec b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Returns nanoseconds since 1970. */
static inline int64_t shard_clock_real_ns(void) {
  struct timespec t;
  shard_clock_read(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
