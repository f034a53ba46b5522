/* SPDX-License-Identifier: MIT */
/*
 * starving.so: an LD_PRELOAD library for tests: an allocation of the process fails.
 *
 *   STARVING_AT    its number, from 1 on; 0, or unset: none
 *   STARVING_ON    1: so do all after it
 *   STARVING_LOG   a file that is given, at the end, the number of allocations
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* All are glibc's: a program may have an allocator of its own. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

static atomic_long made;
static long at;
static bool on;

__attribute__((constructor)) static void begin(void) {
  const char *number = getenv("STARVING_AT"), *further = getenv("STARVING_ON");
  on = further && *further == '1';
  atomic_store(&made, 0); /* the loader's do not count */
  at = number ? atol(number) : 0;
}

__attribute__((destructor)) static void end(void) {
  char line[32];
  const char *log = getenv("STARVING_LOG");
  int n = snprintf(line, sizeof(line), "%ld\n", atomic_load(&made));
  at = 0;
  int fd = log ? open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
  if (fd >= 0 && write(fd, line, (size_t)n) != n) {
    abort();
  }
}

static bool starves(void) {
  long n = atomic_fetch_add(&made, 1) + 1;
  bool now = at > 0 && (n == at || (n > at && on));
  if (now) {
    errno = ENOMEM;
  }
  return now;
}

EXPORT void *malloc(size_t size) { return starves() ? NULL : __libc_malloc(size); }
EXPORT void *calloc(size_t n, size_t size) { return starves() ? NULL : __libc_calloc(n, size); }
EXPORT void *realloc(void *p, size_t size) { return starves() ? NULL : __libc_realloc(p, size); }
EXPORT void free(void *p) { __libc_free(p); }

EXPORT void *memalign(size_t alignment, size_t size) {
  return starves() ? NULL : __libc_memalign(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
  void *p = memalign(alignment, size);
  *out = p ? p : *out;
  return p ? 0 : ENOMEM;
}
