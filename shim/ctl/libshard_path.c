/* SPDX-License-Identifier: MIT */
#include "ctl/libshard_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

bool ctl_libshard_path_find(char self[PATH_MAX], char path[PATH_MAX]) {
  struct utsname machine;
  char triplet[sizeof(machine.machine) + 32], file[2 * PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);
  self[n > 0 ? n : 0] = 0;
  const char *slash = strrchr(self, '/');
  uname(&machine);
  snprintf(triplet, sizeof(triplet), "../lib/%s-linux-gnu/", machine.machine);
  const char *const places[] = {"", "../lib/", "../lib64/", triplet};
  /* Beside another folder than bin, ../lib is anybody's. */
  bool installed = slash && slash - self >= 4 && memcmp(slash - 4, "/bin", 4) == 0;
  for (size_t i = 0; slash && i < (installed ? sizeof(places) / sizeof(places[0]) : 1); i++) {
    snprintf(file, sizeof(file), "%.*s%slibshard.so", (int)(slash - self) + 1, self, places[i]);
    if (realpath(file, path)) {
      return true;
    }
  }
  path[0] = 0;
  return false;
}
