/* SPDX-License-Identifier: MIT */
#include "host/library.h"

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

static char loaded[PATH_MAX]; /* the library's absolute path; "": not known */
static bool initialized;      /* a program that is linked statically has no constructor */

/* Makes a path canonical by the kernel: libc's realpath() allocates, and the constructor calls
 * this. */
static bool make_canonical(const char *path, char *buf, size_t size) {
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

void shard_library_init(void) {
  Dl_info info;
  size_t n = 0;
  int saved = errno;
  initialized = true;
  if (!dladdr((const void *)&shard_library_path, &info) || !info.dli_fname) {
    return;
  }
  /* A path below /proc/self means something else in each process. */
  if (strncmp(info.dli_fname, "/proc/", 6) == 0 &&
      make_canonical(info.dli_fname, loaded, sizeof(loaded))) {
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

int shard_library_path(char *buf, size_t size) {
  if (!initialized) {
    shard_library_init();
  }
  if (!loaded[0]) {
    return -ENOENT;
  }
  if (make_canonical(loaded, buf, size)) {
    return 0;
  }
  char *real = realpath(loaded, NULL);
  int rc = real && (size_t)snprintf(buf, size, "%s", real) < size ? 0 : -ENOENT;
  free(real);
  return rc;
}

void *shard_library_handle(void) {
  Dl_info info;
  /* For the name by which the library was loaded, the loader opens no file. */
  return dladdr((const void *)&shard_library_path, &info) && info.dli_fname
             ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
             : NULL;
}

bool shard_library_is_second_copy(void) {
  Dl_info own, other;
  void *first = dlsym(RTLD_DEFAULT, "shard_adapter_quicken"); /* no other library has this name */
  return first && dladdr(first, &other) && dladdr((const void *)&shard_library_path, &own) &&
         other.dli_fbase != own.dli_fbase;
}

/* Returns whether the last component of path[length] is this word. */
static bool ends_in(const char *path, size_t length, const char *word) {
  size_t n = strlen(word);
  return length > n && path[length - n - 1] == '/' && memcmp(path + length - n, word, n) == 0;
}

/* Returns the path from an installed library's directory dir[length] to the programs; NULL if dir
 * is no such directory. */
static const char *path_to_programs(const char *dir, size_t length) {
  if (ends_in(dir, length, "lib") || ends_in(dir, length, "lib64")) {
    return "/../bin/";
  }
  const char *slash = memrchr(dir, '/', length);
  size_t parent = slash ? (size_t)(slash - dir) : 0;
  const char *triplet = slash ? memmem(slash, length - parent, "-linux-", 7) : NULL;
  return triplet && ends_in(dir, parent, "lib") ? "/../../bin/" : NULL;
}

/* Opens and checks the program. Errors: -ENOENT, there is no program; others, and a line. */
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

int shard_library_open_shardctl(char *path, size_t size, char *err, size_t err_size) {
  struct stat library;
  if (shard_library_path(path, size) != 0 || shard_kernel_stat(AT_FDCWD, path, &library, 0) != 0) {
    return shard_error_set(
        err, err_size, -ENOENT,
        "shardctl was not found: the directory of libshard.so is not known ('%.300s')", loaded);
  }
  char *end = strrchr(path, '/');
  size_t length = (size_t)(end - path), room = size - length;
  const char *const places[] = {"/", path_to_programs(path, length)};
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
