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

#define EXPORT __attribute__((visibility("default")))
#define MODE_NEEDED(flags) (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE)

enum { PATH_SIZE = 4096, LINE_SIZE = 2 * 2 * PATH_SIZE + 32 };

/* The definitions that follow ours in the search order. */
static struct {
  int (*open)(const char *path, int flags, ...);
  int (*open64)(const char *path, int flags, ...);
  int (*openat)(int dirfd, const char *path, int flags, ...);
  int (*openat64)(int dirfd, const char *path, int flags, ...);
  int (*creat)(const char *path, mode_t mode);
  int (*creat64)(const char *path, mode_t mode);
  FILE *(*fopen)(const char *path, const char *mode);
  FILE *(*fopen64)(const char *path, const char *mode);
} real;

/* POSIX lets a function pointer be stored through a void **. */
#define FIND(name) (*(void **)&real.name = dlsym(RTLD_NEXT, #name))

/* Early, because dlsym takes locks: no wrapper may need it in a forked child. */
__attribute__((constructor)) static void find_all(void) {
  FIND(open);
  FIND(open64);
  FIND(openat);
  FIND(openat64);
  FIND(creat);
  FIND(creat64);
  FIND(fopen);
  FIND(fopen64);
}

/* A wrapper may be called by another library's constructor, before ours. */
#define REAL(name) (real.name ? real.name : (find_all(), real.name))

/* Writes the decimal digits of n to to; returns the first byte after them. */
static char *put_number(char *to, long n) {
  char digits[24];
  size_t len = 0;

  do {
    digits[len++] = (char)('0' + n % 10);
    n /= 10;
  } while (n > 0);
  while (len > 0)
    *to++ = digits[--len];
  return to;
}

/*
 * The directory that relative paths start from, without NUL.
 * Returns its length, or -1.
 */
static ssize_t base_directory(int dirfd, char *buf, size_t size) {
  char link[48] = "/proc/self/cwd";

  if (dirfd != AT_FDCWD) {
    memcpy(link, "/proc/self/fd/", 14);
    *put_number(link + 14, dirfd) = '\0';
  }
  return readlink(link, buf, size);
}

/* Logs one line; errno may be changed. */
static void log_line(const char *file, const char *path, size_t len) {
  char line[LINE_SIZE];
  char *to = put_number(line, (long)getpid());
  int log;

  *to++ = ' ';
  for (size_t i = 0; i < len; i++) {
    if (path[i] == '\n' || path[i] == '\\')
      *to++ = '\\';
    *to++ = path[i] == '\n' ? 'n' : path[i];
  }
  *to++ = '\n';

  /* Raw, so that no wrapper (ours or another library's) sees it. */
  log = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (log >= 0) {
    /* A line that can't be written is missed by the test: no need to tell. */
    long written = syscall(SYS_write, log, line, (size_t)(to - line));

    (void)written;
    syscall(SYS_close, log);
  }
}

/* Logs the successful open of path as fd, if it is to be logged. Keeps errno. */
static void note(int fd, int dirfd, const char *path) {
  const char *file = getenv("OPENLOG");
  const char *root = getenv("OPENLOG_ROOT");
  char full[2 * PATH_SIZE];
  size_t used = 0;
  size_t len;
  struct stat st;
  int saved = errno;

  if (fd < 0 || !file || !root)
    return;
  len = strnlen(path, PATH_SIZE);
  if (path[0] != '/') {
    ssize_t base = base_directory(dirfd, full, PATH_SIZE - 1);

    if (base < 0)
      goto out;
    used = (size_t)base;
    full[used++] = '/';
  }
  memcpy(full + used, path, len);
  used += len;

  if (used < strlen(root) || memcmp(full, root, strlen(root)) != 0)
    goto out;
  if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
    goto out;
  log_line(file, full, used);
out:
  errno = saved;
}

static int noted(int fd, int dirfd, const char *path) {
  note(fd, dirfd, path);
  return fd;
}

static FILE *noted_stream(FILE *stream, const char *path) {
  if (stream)
    note(fileno(stream), AT_FDCWD, path);
  return stream;
}

/* The mode is there only if the flags say so: reading it otherwise is undefined. */
#define TAKE_MODE(mode, flags)                                                                     \
  mode_t mode = 0;                                                                                 \
  if (MODE_NEEDED(flags)) {                                                                        \
    va_list args;                                                                                  \
    va_start(args, flags);                                                                         \
    mode = va_arg(args, mode_t);                                                                   \
    va_end(args);                                                                                  \
  }

EXPORT int open(const char *path, int flags, ...) {
  TAKE_MODE(mode, flags)
  return noted(REAL(open)(path, flags, mode), AT_FDCWD, path);
}

EXPORT int open64(const char *path, int flags, ...) {
  TAKE_MODE(mode, flags)
  return noted(REAL(open64)(path, flags, mode), AT_FDCWD, path);
}

EXPORT int openat(int dirfd, const char *path, int flags, ...) {
  TAKE_MODE(mode, flags)
  return noted(REAL(openat)(dirfd, path, flags, mode), dirfd, path);
}

EXPORT int openat64(int dirfd, const char *path, int flags, ...) {
  TAKE_MODE(mode, flags)
  return noted(REAL(openat64)(dirfd, path, flags, mode), dirfd, path);
}

EXPORT int creat(const char *path, mode_t mode) {
  return noted(REAL(creat)(path, mode), AT_FDCWD, path);
}

EXPORT int creat64(const char *path, mode_t mode) {
  return noted(REAL(creat64)(path, mode), AT_FDCWD, path);
}

EXPORT FILE *fopen(const char *path, const char *mode) {
  return noted_stream(REAL(fopen)(path, mode), path);
}

EXPORT FILE *fopen64(const char *path, const char *mode) {
  return noted_stream(REAL(fopen64)(path, mode), path);
}

/* What _FORTIFY_SOURCE makes of calls without a mode; glibc declares none of them. */
EXPORT int __open_2(const char *path, int flags);
EXPORT int __open64_2(const char *path, int flags);
EXPORT int __openat_2(int dirfd, const char *path, int flags);
EXPORT int __openat64_2(int dirfd, const char *path, int flags);

EXPORT int __open_2(const char *path, int flags) {
  return noted(REAL(open)(path, flags, 0), AT_FDCWD, path);
}

EXPORT int __open64_2(const char *path, int flags) {
  return noted(REAL(open64)(path, flags, 0), AT_FDCWD, path);
}

EXPORT int __openat_2(int dirfd, const char *path, int flags) {
  return noted(REAL(openat)(dirfd, path, flags, 0), dirfd, path);
}

EXPORT int __openat64_2(int dirfd, const char *path, int flags) {
  return noted(REAL(openat64)(dirfd, path, flags, 0), dirfd, path);
}
