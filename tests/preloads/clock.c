/* SPDX-License-Identifier: MIT */
/*
 * clock.c - preloaded, it makes a program's clock wrong: what time() tells by TEST_CLOCK seconds;
 * and all that tells the time of day by TEST_JUMP seconds, from the TEST_JUMP_AT-th question on.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long number(const char *name) {
  const char *value = getenv(name);
  return value ? atol(value) : 0;
}

int clock_gettime(clockid_t id, struct timespec *out) {
  static atomic_long asked;
  static int (*real)(clockid_t, struct timespec *);
  if (!real) {
    *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
  }
  int rc = real(id, out);
  if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) &&
      ++asked >= number("TEST_JUMP_AT")) {
    out->tv_sec += number("TEST_JUMP");
  }
  return rc;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time_t t = now.tv_sec + number("TEST_CLOCK");
  if (out) {
    *out = t;
  }
  return t;
}
