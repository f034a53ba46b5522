/* SPDX-License-Identifier: MIT */
/*
 * log.c - prints a line to stderr by one system call: no lock of stdio's, no wrapper.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
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
  size_t size = (size_t)snprintf(line, sizeof(line), "libshard: %s%s: ", who, words[level & 3]);
  size += shard_error_escape(text, line + size, sizeof(line) - size);
  line[size++] = '\n'; /* in place of the NUL */
  ssize_t ignore = syscall(SYS_write, 2, line, size);
  (void)ignore;
  errno = saved;
}
