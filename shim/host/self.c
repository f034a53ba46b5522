/* SPDX-License-Identifier: MIT */
#include "host/self.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* By the kernel: the C library's realpath() allocates, and constructors ask too. */
static bool canonical(const char *path, char *buf, size_t size) {
  char link[40];
  int fd = open(path, O_PATH | O_CLOEXEC);
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

int shard_self_path(char *buf, size_t size) {
  Dl_info info;
  if (!dladdr((const void *)&shard_self_path, &info) || !info.dli_fname) {
    return -ENOENT;
  }
  if (canonical(info.dli_fname, buf, size)) {
    return 0;
  }
  char *real = realpath(info.dli_fname, NULL);
  int rc = real && (size_t)snprintf(buf, size, "%s", real) < size ? 0 : -ENOENT;
  free(real);
  return rc;
}

int shard_self_program(const char *name, char *buf, size_t size) {
  static const char *const places[] = {"", "../bin/", "../../bin/"};
  if (shard_self_path(buf, size) != 0) {
    snprintf(buf, size, "?");
    return -ENOENT;
  }
  char *end = strrchr(buf, '/') + 1;
  size_t room = size - (size_t)(end - buf);
  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
    if ((size_t)snprintf(end, room, "%s%s", places[i], name) < room && access(buf, X_OK) == 0) {
      return 0;
    }
  }
  *end = 0;
  return -ENOENT;
}
