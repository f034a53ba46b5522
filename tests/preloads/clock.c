/* SPDX-License-Identifier: MIT */
/*
 * clock.c - preloaded, it makes a program's clock wrong: what time() tells by TEST_CLOCK seconds;
 * and all that tells the time of day by TEST_JUMP seconds, from the TEST_JUMP_AT-th question on.
 * With TEST_STILL no time passes, by the clock that libshard and shardctl measure with.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

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

/* The library asks the kernel (base/clock.h). */
long syscall(long number, ...) {
  static long (*real)(long, ...);
  long a[6];
  va_list args;
  va_start(args, number);
  for (size_t i = 0; i < 6; i++) {
    a[i] = va_arg(args, long);
  }
  va_end(args);
  if (!real) {
    *(void **)&real = dlsym(RTLD_NEXT, "syscall");
  }
  long rc = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (rc == 0 && number == SYS_clock_gettime && a[0] == CLOCK_MONOTONIC && getenv("TEST_STILL")) {
    *(struct timespec *)a[1] = (struct timespec){.tv_sec = 1000};
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
