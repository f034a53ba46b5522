/* SPDX-License-Identifier: MIT */
/*
 * open.c - wraps the calls that open files, for SHARD_STATS and for a program whose opens are
 * counted (stats/rank_page.h). A wrapper calls libc, and then notes which file was opened. Result,
 * errno and cancellation points are libc's. At _exit and _Exit, the process's log notes the end of
 * the process.
 *
 * Not noted: raw system calls (Go, io_uring, some Rust, syscall()), openat2 (glibc has none),
 * open_by_handle_at, static binaries, opens inside libc itself.
 *
 * open() and openat() are variadic, but here they always have a mode. On every supported system the
 * mode is passed in a register, and libc reads it only if the flags say so. So the wrappers are
 * defined with a mode, under other names, and the compiler turns each into a jump if nothing is
 * noted.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/real.h"
#include "interpose/guard.h"
#include "stats/rank_page.h"
#include "stats/stats.h"
#include "view/view.h"

/* Returns whether opens are not noted. Never before the constructor has run, when shard_real_table
 * may be empty. */
static inline bool is_off(void) {
  return __builtin_expect(atomic_load_explicit(&shard_stats_state, memory_order_acquire) ==
                                  SHARD_STATS_OFF &&
                              !shard_rank_page(),
                          1);
}

static int note_open(int fd, int dirfd, const char *path, int flags) {
  if (fd >= 0 && shard_guard_depth == 0) {
    shard_rank_page_opened(dirfd, path, flags);
    if (shard_stats_on()) {
      shard_guard_depth++;
      shard_stats_opened(fd, dirfd, path, flags);
      shard_guard_depth--;
    }
  }
  return fd;
}

static FILE *note_stream(FILE *stream, const char *path) {
  if (stream && path) {
    note_open(fileno(stream), AT_FDCWD, path, 0);
  }
  return stream;
}

/*
 * Defines a wrapper as two functions, so that the function that passes a call on saves no register.
 * RESULT: the type. TAKES: the parameters. GIVES: the arguments. NOTED: an expression that notes
 * the result r, and has its value.
 */
#define WRAP(name, symbol, RESULT, TAKES, GIVES, NOTED)                                            \
  static __attribute__((noinline)) RESULT slow_##name TAKES {                                      \
    RESULT r = shard_real()->name GIVES;                                                           \
    return NOTED;                                                                                  \
  }                                                                                                \
  SHARD_EXPORT RESULT symbol TAKES {                                                               \
    return is_off() ? shard_real_table.name GIVES : slow_##name GIVES;                             \
  }

#define OPEN(name)                                                                                 \
  SHARD_EXPORT int shard_##name(const char *path, int flags, mode_t mode) __asm__(#name);          \
  WRAP(name, shard_##name, int, (const char *path, int flags, mode_t mode), (path, flags, mode),   \
       note_open(r, AT_FDCWD, path, flags))
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
  SHARD_EXPORT int shard_##name(int dirfd, const char *path, int flags,                            \
                                mode_t mode) __asm__(#name);                                       \
  WRAP(name, shard_##name, int, (int dirfd, const char *path, int flags, mode_t mode),             \
       (dirfd, path, flags, mode), note_open(r, dirfd, path, flags))
OPENAT(openat)
OPENAT(openat64)

#define OPEN_2(name)                                                                               \
  WRAP(name, name, int, (const char *path, int flags), (path, flags),                              \
       note_open(r, AT_FDCWD, path, flags))
OPEN_2(__open_2)
OPEN_2(__open64_2)

#define OPENAT_2(name)                                                                             \
  WRAP(name, name, int, (int dirfd, const char *path, int flags), (dirfd, path, flags),            \
       note_open(r, dirfd, path, flags))
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

#define CREAT(name)                                                                                \
  WRAP(name, name, int, (const char *path, mode_t mode), (path, mode),                             \
       note_open(r, AT_FDCWD, path, 0))
CREAT(creat)
CREAT(creat64)

#define FOPEN(name)                                                                                \
  WRAP(name, name, FILE *, (const char *restrict path, const char *restrict mode), (path, mode),   \
       note_stream(r, path))
FOPEN(fopen)
FOPEN(fopen64)

#define FREOPEN(name)                                                                              \
  WRAP(name, name, FILE *,                                                                         \
       (const char *restrict path, const char *restrict mode, FILE *restrict stream),              \
       (path, mode, stream), note_stream(r, path))
FREOPEN(freopen)
FREOPEN(freopen64)

/* ---- the end of the process ---- */

#define EXIT(name)                                                                                 \
  SHARD_EXPORT __attribute__((noreturn)) void name(int status) {                                   \
    shard_stats_end();                                                                             \
    for (;;) {                                                                                     \
      shard_real()->name(status);                                                                  \
    }                                                                                              \
  }
EXIT(_exit)
EXIT(_Exit)

__attribute__((destructor)) static void shard_end(void) {
  shard_stats_end();
  shard_view_at_exit();
}
