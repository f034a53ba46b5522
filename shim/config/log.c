/* SPDX-License-Identifier: MIT */
/*
 * log.c - prints a line to stderr by one system call: no lock of stdio's, no wrapper.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/config.h"
#include "libshard.h"

void shard_log(int level, const char *text) {
  static const char *const words[] = {"error", "warning", "info", "debug"};
  if (level < 0 || level > (int)shard_config()->log) {
    return;
  }
  int saved = errno;
  char line[1400];
  struct shard_world world;
  char ignored[256], who[64] = "";
  if (shard_world_get(&world, ignored, sizeof(ignored)) == 0) {
    snprintf(who, sizeof(who), "rank %d: ", world.rank);
  }
  int n = snprintf(line, sizeof(line), "libshard: %s%s: %s\n", who, words[level & 3], text);
  size_t size = n < 0 ? 0 : (size_t)n;
  if (size >= sizeof(line)) {
    size = sizeof(line) - 1;
    line[size - 1] = '\n';
  }
  ssize_t ignore = syscall(SYS_write, 2, line, size);
  (void)ignore;
  errno = saved;
}
