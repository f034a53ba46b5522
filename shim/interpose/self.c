/* SPDX-License-Identifier: MIT */
#include "interpose/self.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int shard_self_path(char *buf, size_t size) {
  Dl_info info;
  char *real = NULL;
  int rc = -ENOENT;
  if (dladdr((const void *)&shard_self_path, &info) && info.dli_fname &&
      (real = realpath(info.dli_fname, NULL)) && (size_t)snprintf(buf, size, "%s", real) < size) {
    rc = 0;
  }
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
