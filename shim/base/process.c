/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

bool shard_process_read(long pid, struct shard_process *out) {
  char path[64];
  size_t size;
  snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
  char *text = shard_file_read(path, &size);
  /* proc(5): the name in parentheses may hold anything; behind it, blanks separate the fields from
   * the third on. */
  char *p = text ? strrchr(text, ')') : NULL;
  bool found = false;
  for (int field = 3; p && (p = strchr(p, ' ')); field++) {
    p++;
    if (field == 3) {
      out->ended = *p == 'Z' || *p == 'X';
    } else if (field == 4) {
      out->parent = strtol(p, NULL, 10);
    } else if (field == 22) {
      out->start = strtoull(p, NULL, 10);
      found = true;
      break;
    }
  }
  free(text);
  return found;
}

long shard_process_self(void) {
  char text[24];
  ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);
  text[n > 0 ? n : 0] = 0;
  return strtol(text, NULL, 10);
}

int64_t shard_process_started(unsigned long long start) {
  struct timespec boot;
  long ticks = sysconf(_SC_CLK_TCK);
  shard_clock_read(CLOCK_BOOTTIME, &boot);
  int64_t since_boot = boot.tv_sec * 1000000000LL + boot.tv_nsec;
  return shard_clock_real_ns() - since_boot +
         (int64_t)(start + 1) * (1000000000LL / (ticks > 0 ? ticks : 100));
}
