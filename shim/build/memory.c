/* SPDX-License-Identifier: MIT */
#include "build/memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "config/config.h"

/* The files of a version of cgroups. */
struct names {
  const char *mount; /* below /sys/fs/cgroup */
  const char *limit, *usage;
  const char *cache; /* the key in memory.stat */
};

/* Where both versions are mounted, the second may be in "unified". */
static const struct names versions[] = {
    {"", "memory.max", "memory.current", "\ninactive_file "},
    {"/unified", "memory.max", "memory.current", "\ninactive_file "},
    {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file "}};

/* The number that a file of a cgroup has, behind a key if there is one. false: there is none ("max"
 * is none). */
static bool read_number(const char *folder, const char *file, const char *key, uint64_t *number) {
  char path[PATH_MAX];
  size_t size;
  int length = snprintf(path, sizeof(path), "%s/%s", folder, file);
  char *text = length < (int)sizeof(path) ? shard_file_read(path, &size) : NULL;
  const char *at = text && key ? strstr(text, key) : text;
  at = at && key ? at + strlen(key) : at;
  bool found = at && *at >= '0' && *at <= '9';
  *number = found ? strtoull(at, NULL, 10) : 0;
  free(text);
  return found;
}

/* What one cgroup's own limit leaves. */
static uint64_t left_in(const char *folder, const struct names *n) {
  uint64_t limit, usage, cache;
  if (!read_number(folder, n->limit, NULL, &limit) ||
      !read_number(folder, n->usage, NULL, &usage)) {
    return UINT64_MAX;
  }
  read_number(folder, "memory.stat", n->cache, &cache);
  usage -= cache < usage ? cache : usage;
  return limit > usage ? limit - usage : 0;
}

/* What the limits of a cgroup and its ancestors leave. In a container the path may be the host's,
 * and only its root is there. */
static uint64_t left_above(const char *mounts, const struct names *n, const char *group) {
  char folder[PATH_MAX];
  size_t root = (size_t)snprintf(folder, sizeof(folder), "%s%s", mounts, n->mount);
  /* Outside of the cgroup namespace's root: "/..". */
  const char *below = strstr(group, "/..") ? "" : group;
  if (root + strlen(below) >= sizeof(folder)) {
    return UINT64_MAX;
  }
  strcpy(folder + root, below);
  uint64_t least = UINT64_MAX;
  for (char *end = folder + strlen(folder); end; end = strrchr(folder + root, '/')) {
    *end = 0;
    uint64_t left = left_in(folder, n);
    least = left < least ? left : least;
  }
  return least;
}

/* Whether a list of controllers, separated by commas, has the one for memory. */
static bool has_memory(const char *controllers) {
  char *rest = strdupa(controllers), *one;
  while ((one = strsep(&rest, ","))) {
    if (strcmp(one, "memory") == 0) {
      return true;
    }
  }
  return false;
}

uint64_t shard_memory_left(const char *groups, const char *mounts) {
  size_t size;
  uint64_t least = UINT64_MAX;
  char *text = shard_file_read(groups, &size), *rest = text, *line;
  /* Lines "ID:CONTROLLERS:PATH" (cgroups(7)); version 2 has no controllers. */
  while (text && (line = strsep(&rest, "\n"))) {
    strsep(&line, ":");
    const char *controllers = line ? strsep(&line, ":") : NULL;
    for (size_t i = 0; line && i < sizeof(versions) / sizeof(versions[0]); i++) {
      bool first = strcmp(versions[i].mount, "/memory") == 0;
      if (first ? has_memory(controllers) : !*controllers) {
        uint64_t left = left_above(mounts, &versions[i], line);
        least = left < least ? left : least;
      }
    }
  }
  free(text);
  return least;
}

size_t shard_memory_for_names(void) {
  uint64_t memory = shard_config()->build_memory;
  if (!getenv("SHARD_BUILD_MEMORY")) {
    uint64_t quarter = shard_memory_left("/proc/self/cgroup", "/sys/fs/cgroup") / 4;
    memory = quarter < memory ? quarter : memory;
  }
  return (size_t)(memory < SHARD_BUILD_MEMORY_LEAST ? SHARD_BUILD_MEMORY_LEAST : memory);
}
