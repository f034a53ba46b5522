/* SPDX-License-Identifier: MIT */
#include "interpose/self.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int shard_self_path(char *buf, size_t size) {
  Dl_info info;
  char real[PATH_MAX];
  if (!dladdr((const void *)&shard_self_path, &info) || !info.dli_fname ||
      !realpath(info.dli_fname, real) || (size_t)snprintf(buf, size, "%s", real) >= size) {
    return -ENOENT;
  }
  return 0;
}

int shard_self_program(const char *name, char *buf, size_t size) {
  static const char *const places[] = {"", "../bin/"};
  char self[PATH_MAX];
  int rc = shard_self_path(self, sizeof(self));
  if (rc != 0) {
    snprintf(buf, size, "?");
    return rc;
  }
  *(strrchr(self, '/') + 1) = 0;
  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
    if ((size_t)snprintf(buf, size, "%s%s%s", self, places[i], name) < size &&
        access(buf, X_OK) == 0) {
      return 0;
    }
  }
  snprintf(buf, size, "%s", self);
  return -ENOENT;
}
