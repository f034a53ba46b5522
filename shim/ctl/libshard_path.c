/* SPDX-License-Identifier: MIT */
#include "ctl/libshard_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "base/kernel.h"
#include "base/trust.h"

/* Returns whether the library may be loaded, by the rules by which host/library.h judges shardctl.
 */
static bool is_trusted(const char *path, char *err, size_t size) {
  struct stat own, library;
  if (shard_kernel_stat(AT_FDCWD, "/proc/self/exe", &own, 0) != 0 ||
      shard_kernel_stat(AT_FDCWD, path, &library, 0) != 0) {
    return shard_error_set(err, size, 0, "cannot look at '%.300s': %s", path, strerror(errno));
  }
  return shard_trust_product(&library, path, "loaded", &own, "shardctl", err, size) == 0;
}

bool ctl_libshard_path_find(char self[PATH_MAX], char path[PATH_MAX], char *err, size_t size) {
  struct utsname machine;
  char triplet[sizeof(machine.machine) + 32], file[2 * PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);
  self[n > 0 ? n : 0] = 0;
  const char *slash = strrchr(self, '/');
  uname(&machine);
  snprintf(triplet, sizeof(triplet), "../lib/%s-linux-gnu/", machine.machine);
  const char *const places[] = {"", "../lib/", "../lib64/", triplet};
  /* ../lib belongs to shardctl only if shardctl is in a folder called bin. */
  bool installed = slash && slash - self >= 4 && memcmp(slash - 4, "/bin", 4) == 0;
  for (size_t i = 0; slash && i < (installed ? sizeof(places) / sizeof(places[0]) : 1); i++) {
    snprintf(file, sizeof(file), "%.*s%slibshard.so", (int)(slash - self) + 1, self, places[i]);
    if (realpath(file, path)) {
      bool good = is_trusted(path, err, size);
      if (good && path[strcspn(path, ": \t\n")]) {
        good = shard_error_set(err, size, 0,
                               "'%.500s' has a blank or a colon in its path, which LD_PRELOAD "
                               "cannot hold; install it elsewhere",
                               path);
      }
      path[0] = good ? path[0] : 0;
      return good;
    }
  }
  path[0] = 0;
  return shard_error_set(err, size, 0,
                         "cannot find libshard.so beside '%.500s', nor in ../lib or ../lib64; "
                         "install both together",
                         self);
}

bool ctl_libshard_path_preloaded(char path[PATH_MAX]) {
  const char *p = getenv("LD_PRELOAD");
  bool named = false;
  for (size_t n; p && *p; p += n + (p[n] != 0)) {
    n = strcspn(p, ": \t\n");
    const char *name = memrchr(p, '/', n);
    if (name && n < PATH_MAX && p + n - name == sizeof("/libshard.so") - 1 &&
        strncmp(name, "/libshard.so", sizeof("/libshard.so") - 1) == 0) {
      snprintf(path, PATH_MAX, "%.*s", (int)n, p);
      named = true;
      if (access(path, F_OK) == 0) {
        break;
      }
    }
  }
  return named;
}

bool ctl_libshard_path_same(const char *a, const char *b) {
  struct stat one, other;
  return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_ino == other.st_ino &&
         one.st_dev == other.st_dev;
}
