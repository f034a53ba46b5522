/* SPDX-License-Identifier: MIT */
/*
 * failing.so: an LD_PRELOAD library for tests, that makes a call fail. It counts the calls that
 * write, or make or name a file.
 *
 *   FAILING_AT    the number of the call to fail, from 1 on; 0, or unset: none
 *   FAILING_WITH  ENOSPC, EIO, EDQUOT or EINTR; SHORT: a write takes a third of what it is given;
 *                 KILL: the process is killed before the call
 *   FAILING_ON    1: so do all calls after it
 *   FAILING_LOG   a file that is given, at the end, a line with the number of calls, and the name
 *                 of the first that was made to fail, or "none"
 *   FAILING_NAP   microseconds to sleep before each getdents64, which then reads 2 KB at the most,
 *                 and after each mkostemp
 *   FAILING_GATE  after each mkostemp wait until there is a file of this name
 *
 * EINTR fails only what may be interrupted (not rename and symlink), SHORT only writes, and each
 * only once. Wrapped: write (but to stdout and stderr), pwrite, fallocate, posix_fallocate,
 * ftruncate, fsync, rename, symlink, mkostemp, mkstemp, open with O_TMPFILE, syscall; and their 64
 * forms.
 */
#include "real.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
  long at, nap;
  bool on, cut, die; /* FAILING_ON; SHORT; KILL */
  int error;
  const char *log, *gate;
} how;
static atomic_long calls;
static _Atomic(const char *) failed;

__attribute__((constructor)) static void begin(void) {
  static const struct {
    const char *name;
    int error;
  } errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EDQUOT", EDQUOT}, {"EINTR", EINTR}};
  const char *at = getenv("FAILING_AT"), *with = getenv("FAILING_WITH");
  const char *on = getenv("FAILING_ON"), *nap = getenv("FAILING_NAP");
  how.at = at ? atol(at) : 0;
  how.nap = nap ? atol(nap) : 0;
  how.on = on && *on == '1';
  how.log = getenv("FAILING_LOG");
  how.gate = getenv("FAILING_GATE");
  how.cut = with && strcmp(with, "SHORT") == 0;
  how.die = with && strcmp(with, "KILL") == 0;
  for (size_t i = 0; with && i < sizeof(errors) / sizeof(errors[0]); i++) {
    how.error = strcmp(with, errors[i].name) == 0 ? errors[i].error : how.error;
  }
}

__attribute__((destructor)) static void end(void) {
  char line[100];
  int fd = how.log ? REAL(open)(how.log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
  if (fd >= 0) {
    const char *name = atomic_load(&failed);
    int n = snprintf(line, sizeof(line), "%ld %s\n", atomic_load(&calls), name ? name : "none");
    if (REAL(write)(fd, line, (size_t)n) != n) {
      abort();
    }
    close(fd);
  }
}

static void nap(void) {
  struct timespec time = {how.nap / 1000000, how.nap % 1000000 * 1000};
  nanosleep(&time, NULL);
}

/* Whether this call is the one. */
static bool turn(const char *name) {
  long n = atomic_fetch_add(&calls, 1) + 1;
  bool now = how.at > 0 && (n == how.at || (n > how.at && how.on));
  if (now && how.die) {
    raise(SIGKILL);
  }
  if (now) {
    const char *none = NULL;
    atomic_compare_exchange_strong(&failed, &none, name);
  }
  return now;
}

/* Whether it fails: the error, or 0. */
static int fails(const char *name, bool interruptible) {
  return turn(name) && (how.error != EINTR || interruptible) ? how.error : 0;
}

#define FAIL_OR(name, interruptible, call)                                                         \
  int error = fails(name, interruptible);                                                          \
  if (error != 0) {                                                                                \
    errno = error;                                                                                 \
    return -1;                                                                                     \
  }                                                                                                \
  return call

/* Whether a write fails, or takes less. */
static int write_fails(const char *name, size_t *size) {
  int error = 0;
  if (turn(name)) {
    error = how.error;
    *size = how.cut && *size > 2 ? *size / 3 : *size;
  }
  return error;
}

#define WRITE(name, call)                                                                          \
  int error = write_fails(name, &size);                                                            \
  if (error != 0) {                                                                                \
    errno = error;                                                                                 \
    return -1;                                                                                     \
  }                                                                                                \
  return call

EXPORT ssize_t write(int fd, const void *data, size_t size) {
  if (fd == 1 || fd == 2) {
    return REAL(write)(fd, data, size);
  }
  WRITE("write", REAL(write)(fd, data, size));
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  WRITE("pwrite", REAL(pwrite)(fd, data, size, at));
}

EXPORT ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  WRITE("pwrite", REAL(pwrite64)(fd, data, size, at));
}

EXPORT int fallocate(int fd, int mode, off_t at, off_t size) {
  FAIL_OR("fallocate", true, REAL(fallocate)(fd, mode, at, size));
}

EXPORT int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  FAIL_OR("fallocate", true, REAL(fallocate64)(fd, mode, at, size));
}

EXPORT int posix_fallocate(int fd, off_t at, off_t size) {
  int error = fails("posix_fallocate", true);
  return error ? error : REAL(posix_fallocate)(fd, at, size);
}

EXPORT int posix_fallocate64(int fd, off64_t at, off64_t size) {
  int error = fails("posix_fallocate", true);
  return error ? error : REAL(posix_fallocate64)(fd, at, size);
}

EXPORT int ftruncate(int fd, off_t size) { FAIL_OR("ftruncate", true, REAL(ftruncate)(fd, size)); }

EXPORT int ftruncate64(int fd, off64_t size) {
  FAIL_OR("ftruncate", true, REAL(ftruncate64)(fd, size));
}

EXPORT int fsync(int fd) { FAIL_OR("fsync", true, REAL(fsync)(fd)); }

EXPORT int rename(const char *old, const char *new) {
  FAIL_OR("rename", false, REAL(rename)(old, new));
}

EXPORT int symlink(const char *target, const char *path) {
  FAIL_OR("symlink", false, REAL(symlink)(target, path));
}

EXPORT int mkstemp(char *name) { FAIL_OR("mkstemp", true, REAL(mkstemp)(name)); }

EXPORT int mkostemp(char *name, int flags) {
  int error = fails("mkostemp", true), fd = error ? -1 : REAL(mkostemp)(name, flags);
  if (fd >= 0) {
    nap();
  }
  while (fd >= 0 && how.gate && access(how.gate, F_OK) != 0) {
    nanosleep(&(struct timespec){0, 5000000}, NULL);
  }
  errno = error ? error : errno;
  return fd;
}

EXPORT int mkostemp64(char *name, int flags) {
  FAIL_OR("mkostemp", true, REAL(mkostemp64)(name, flags));
}

#define OPEN(name)                                                                                 \
  EXPORT int name(const char *path, int flags, ...) {                                              \
    va_list args;                                                                                  \
    va_start(args, flags);                                                                         \
    mode_t mode =                                                                                  \
        (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;          \
    va_end(args);                                                                                  \
    if ((flags & O_TMPFILE) != O_TMPFILE) {                                                        \
      return REAL(name)(path, flags, mode);                                                        \
    }                                                                                              \
    FAIL_OR("O_TMPFILE", true, REAL(name)(path, flags, mode));                                     \
  }

OPEN(open)
OPEN(open64)

EXPORT long syscall(long number, ...) {
  long a[6];
  va_list args;
  va_start(args, number);
  for (size_t i = 0; i < 6; i++) {
    a[i] = va_arg(args, long);
  }
  va_end(args);
  if (number == SYS_getdents64 && how.nap > 0) {
    nap();
    a[2] = a[2] > 2048 ? 2048 : a[2];
  }
  return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
