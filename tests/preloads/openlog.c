/*
 * openlog.so: an LD_PRELOAD library for tests that logs which files are opened.
 *
 *   OPENLOG       file to append to; nothing is logged while it is unset
 *   OPENLOG_ROOT  prefix of the absolute paths to log
 *
 * Both are read at every call, so that a program can change them as it runs.
 * One line per successful open of anything but a directory: "PID PATH\n", the
 * path absolute but otherwise as it was passed, with newline written as \n and
 * backslash as \\. The line is one write(2) to an O_APPEND descriptor, so any
 * number of threads and processes may share a file. No locks and no allocation:
 * it may run between fork and exec.
 *
 * Wrapped: open, openat, creat, fopen, their 64 forms, and the checked forms
 * that _FORTIFY_SOURCE calls. Not seen: opens inside libc, raw system calls,
 * io_uring, freopen.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

/* Logs the successful open of path as fd, if it is to be logged. Keeps errno. */
static void note(int fd, int dirfd, const char *path) {
  const char *file = getenv("OPENLOG"), *root = getenv("OPENLOG_ROOT");
  char full[2 * PATH_SIZE], link[48], line[2 * sizeof(full) + 32];
  struct stat st;
  int saved = errno;
  if (fd < 0 || !file || !root || (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)))
    goto out;
  ssize_t used = 0;
  if (path[0] != '/') {
    snprintf(link, sizeof(link), dirfd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", dirfd);
    used = readlink(link, full, PATH_SIZE - 1);
    if (used < 0)
      goto out;
    full[used++] = '/';
  }
  snprintf(full + used, sizeof(full) - (size_t)used, "%s", path);
  if (strncmp(full, root, strlen(root)) == 0) {
    char *to = line + sprintf(line, "%ld ", (long)getpid());
    for (const char *p = full; *p; p++) {
      if (*p == '\n' || *p == '\\')
        *to++ = '\\';
      *to++ = *p == '\n' ? 'n' : *p;
    }
    *to++ = '\n';
    /* Raw, so that no wrapper (ours or another library's) sees the open. A line
     * that can't be written is missed by the test: no need to tell. */
    long log = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (log >= 0) {
      long written = syscall(SYS_write, log, line, (size_t)(to - line));
      (void)written;
      syscall(SYS_close, log);
    }
  }
out:
  errno = saved;
}

static int noted(int fd, int dirfd, const char *path) {
  note(fd, dirfd, path);
  return fd;
}

/* The definitions that follow ours in the search order; found early, because
 * dlsym takes locks, and no wrapper may need it in a forked child. A wrapper may
 * be called by another library's constructor, before ours. */
#define REAL(type, name, parameters)                                                               \
  static type(*real_##name) parameters;                                                            \
  __attribute__((constructor)) static void find_##name(void) {                                     \
    *(void **)&real_##name = dlsym(RTLD_NEXT, #name);                                              \
  }
#define FOUND(name) (real_##name ? real_##name : (find_##name(), real_##name))
#define EXPORT __attribute__((visibility("default")))

/* The mode is there only if the flags say so: reading it otherwise is undefined. */
#define TAKE_MODE(mode, flags)                                                                     \
  mode_t mode = 0;                                                                                 \
  if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                                     \
    va_list args;                                                                                  \
    va_start(args, flags);                                                                         \
    mode = va_arg(args, mode_t);                                                                   \
    va_end(args);                                                                                  \
  }

/* The calls of one suffix. The last two are what _FORTIFY_SOURCE makes of calls
 * without a mode; glibc declares none of them. */
#define WRAP(suffix)                                                                               \
  REAL(int, open##suffix, (const char *path, int flags, ...))                                      \
  REAL(int, openat##suffix, (int dirfd, const char *path, int flags, ...))                         \
  REAL(int, creat##suffix, (const char *path, mode_t mode))                                        \
  REAL(FILE *, fopen##suffix, (const char *path, const char *mode))                                \
  EXPORT int open##suffix(const char *path, int flags, ...) {                                      \
    TAKE_MODE(mode, flags)                                                                         \
    return noted(FOUND(open##suffix)(path, flags, mode), AT_FDCWD, path);                          \
  }                                                                                                \
  EXPORT int openat##suffix(int dirfd, const char *path, int flags, ...) {                         \
    TAKE_MODE(mode, flags)                                                                         \
    return noted(FOUND(openat##suffix)(dirfd, path, flags, mode), dirfd, path);                    \
  }                                                                                                \
  EXPORT int creat##suffix(const char *path, mode_t mode) {                                        \
    return noted(FOUND(creat##suffix)(path, mode), AT_FDCWD, path);                                \
  }                                                                                                \
  EXPORT FILE *fopen##suffix(const char *path, const char *mode) {                                 \
    FILE *stream = FOUND(fopen##suffix)(path, mode);                                               \
    if (stream)                                                                                    \
      note(fileno(stream), AT_FDCWD, path);                                                        \
    return stream;                                                                                 \
  }                                                                                                \
  EXPORT int __open##suffix##_2(const char *path, int flags);                                      \
  EXPORT int __openat##suffix##_2(int dirfd, const char *path, int flags);                         \
  EXPORT int __open##suffix##_2(const char *path, int flags) {                                     \
    return noted(FOUND(open##suffix)(path, flags, 0), AT_FDCWD, path);                             \
  }                                                                                                \
  EXPORT int __openat##suffix##_2(int dirfd, const char *path, int flags) {                        \
    return noted(FOUND(openat##suffix)(dirfd, path, flags, 0), dirfd, path);                       \
  }

WRAP()
WRAP(64)
