/* SPDX-License-Identifier: MIT */
#include "host/self.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/kernel.h"
#include "base/trust.h"
#include "host/builder.h"

static char loaded[PATH_MAX]; /* the library's path, absolute; "": it is not known */
static bool known;            /* shard_self_init() was here; a program linked statically has none */

/* By the kernel: the C library's realpath() allocates, and constructors ask too. */
static bool canonical(const char *path, char *buf, size_t size) {
  char link[40];
  int fd = shard_kernel_open(AT_FDCWD, path, O_PATH);
  if (fd < 0) {
    return false;
  }
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, buf, size);
  close(fd);
  if (n <= 0 || (size_t)n >= size || buf[0] != '/') {
    return false;
  }
  buf[n] = 0;
  return true;
}

void shard_self_init(void) {
  Dl_info info;
  size_t n = 0;
  int saved = errno;
  known = true;
  if (!dladdr((const void *)&shard_self_path, &info) || !info.dli_fname) {
    return;
  }
  /* What begins with /proc/self is as little absolute as "./" is. */
  if (strncmp(info.dli_fname, "/proc/", 6) == 0 &&
      canonical(info.dli_fname, loaded, sizeof(loaded))) {
    errno = saved;
    return;
  }
  if (info.dli_fname[0] != '/') {
    n = getcwd(loaded, sizeof(loaded)) ? strlen(loaded) : sizeof(loaded);
  }
  if (n >= sizeof(loaded) || (n > 0 && loaded[0] != '/') ||
      (size_t)snprintf(loaded + n, sizeof(loaded) - n, "%s%s", n > 0 ? "/" : "", info.dli_fname) >=
          sizeof(loaded) - n) {
    loaded[0] = 0;
  }
  errno = saved;
}

int shard_self_path(char *buf, size_t size) {
  if (!known) {
    shard_self_init();
  }
  if (!loaded[0]) {
    return -ENOENT;
  }
  if (canonical(loaded, buf, size)) {
    return 0;
  }
  char *real = realpath(loaded, NULL);
  int rc = real && (size_t)snprintf(buf, size, "%s", real) < size ? 0 : -ENOENT;
  free(real);
  return rc;
}

void *shard_self_handle(void) {
  Dl_info info;
  /* By the very name that it was loaded by, the loader looks at no file. */
  return dladdr((const void *)&shard_self_path, &info) && info.dli_fname
             ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
             : NULL;
}

bool shard_self_is_second(void) {
  Dl_info own, other;
  void *first = dlsym(RTLD_DEFAULT, "shard_adapter_quicken"); /* a name that nobody else has */
  return first && dladdr(first, &other) && dladdr((const void *)&shard_self_path, &own) &&
         other.dli_fbase != own.dli_fbase;
}

/* Is the last component of path[length] this word? */
static bool ends_in(const char *path, size_t length, const char *word) {
  size_t n = strlen(word);
  return length > n && path[length - n - 1] == '/' && memcmp(path + length - n, word, n) == 0;
}

/* From the library's folder dir[length] to that of the programs, if both are installed; or NULL. */
static const char *installed(const char *dir, size_t length) {
  if (ends_in(dir, length, "lib") || ends_in(dir, length, "lib64")) {
    return "/../bin/";
  }
  const char *slash = memrchr(dir, '/', length);
  size_t parent = slash ? (size_t)(slash - dir) : 0;
  const char *triplet = slash ? memmem(slash, length - parent, "-linux-", 7) : NULL;
  return triplet && ends_in(dir, parent, "lib") ? "/../../bin/" : NULL;
}

/* The program, opened and judged. -ENOENT: there is none; other errors put a line in err[size]. */
static int open_program(const struct stat *library, const char *path, char *err, size_t size) {
  if (access(path, X_OK) != 0) {
    return -ENOENT;
  }
  int fd = shard_file_move_fd(shard_kernel_open(AT_FDCWD, path, O_PATH));
  if (fd < 0) {
    int fault = errno;
    return shard_error_set(err, size, fault == ENOENT ? -EAGAIN : -fault,
                           "cannot open '%.300s': %s", path, strerror(fault));
  }
  struct stat st;
  int rc = shard_kernel_fstat(fd, &st) == 0
               ? shard_trust_product(&st, path, "run", library, "libshard.so", err, size)
               : shard_error_set(err, size, -errno, "'%.300s': %s", path, strerror(errno));
  if (rc != 0) {
    close(fd);
  }
  return rc ? rc : fd;
}

int shard_self_program(char *path, size_t size, char *err, size_t err_size) {
  struct stat library;
  if (shard_self_path(path, size) != 0 || shard_kernel_stat(AT_FDCWD, path, &library, 0) != 0) {
    return shard_error_set(
        err, err_size, -ENOENT,
        "shardctl was not found, for it is not known where libshard.so lies ('%.300s')", loaded);
  }
  char *end = strrchr(path, '/');
  size_t length = (size_t)(end - path), room = size - length;
  const char *const places[] = {"/", installed(path, length)};
  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && places[i]; i++) {
    if ((size_t)snprintf(end, room, "%sshardctl", places[i]) < room) {
      int fd = open_program(&library, path, err, err_size);
      if (fd != -ENOENT) {
        return fd;
      }
    }
  }
  *end = 0;
  return shard_error_set(err, err_size, -ENOENT,
                         "shardctl was not found beside libshard.so ('%.300s'); build or install "
                         "both together",
                         path);
}
