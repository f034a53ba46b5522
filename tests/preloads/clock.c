/* SPDX-License-Identifier: MIT */
/*
 * clock.c - preloaded, it makes a program's clock wrong by TEST_CLOCK seconds.
 */
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

time_t time(time_t *out) {
  struct timeval now;
  const char *off = getenv("TEST_CLOCK");
  gettimeofday(&now, NULL);
  time_t t = now.tv_sec + (off ? atol(off) : 0);
  if (out) {
    *out = t;
  }
  return t;
}
