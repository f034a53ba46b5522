/* SPDX-License-Identifier: MIT */
/*
 * log.c - prints messages to stderr, each by one system call: neither stdio's lock nor a wrapper is
 * involved.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adapter/api.h"
#include "base/error.h"
#include "base/workspace.h"
#include "config/config.h"

#define LONGEST 1400 /* bytes */

void shard_log(int level, const char *text) {
  static const char *const words[] = {"error", "warning", "info", "debug"};
  if (level < 0 || level > (int)shard_config()->log) {
    return;
  }
  int saved = errno;
  SHARD_WORKSPACE(workspace);
  char small[200], *line = workspace ? workspace : small; /* out of memory: cut off */
  size_t room = workspace ? LONGEST : sizeof(small), size;
  struct shard_world world;
  char ignored[1], who[24] = "";
  if (shard_world_get(&world, ignored, sizeof(ignored)) == 0) {
    snprintf(who, sizeof(who), "rank %d: ", world.rank);
  }
  size = (size_t)snprintf(line, room, "libshard: %s%s: ", who, words[level & 3]);
  size += shard_error_escape(text, line + size, room - size);
  line[size++] = '\n'; /* replaces the NUL */
  ssize_t ignore = syscall(SYS_write, 2, line, size);
  (void)ignore;
  errno = saved;
}

void shard_say(int level, const char *format, ...) {
  int saved = errno;
  va_list args;
  if (level >= 0 && level <= (int)shard_config()->log) {
    SHARD_WORKSPACE(text);
    va_start(args, format);
    if (text) {
      vsnprintf(text, LONGEST, format, args);
    }
    va_end(args);
    errno = saved;
    shard_log(level, text ? text : format);
  }
}
