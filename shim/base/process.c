/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

/* Reads a file of a process in /proc. Returns as shard_file_read(). */
static char *read_file(long pid, const char *name, size_t *size) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%ld/%s", pid, name);
  return shard_file_read(path, size);
}

bool shard_process_read(long pid, struct shard_process *out) {
  size_t size;
  char *text = read_file(pid, "status", &size);
  const char *user =
      text ? strstr(text, "\nUid:") : NULL; /* proc(5): the real user id comes first */
  out->user = user ? strtol(user + strlen("\nUid:"), NULL, 10) : -1;
  free(text);
  text = read_file(pid, "stat", &size);
  /* proc(5): the name in parentheses may hold any bytes; behind the name, blanks separate the
   * fields from the third on. */
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
  return found && user;
}

char *shard_process_environment(long pid, size_t *size, bool *whole) {
  char *text = read_file(pid, "environ", size);
  *whole = text;
  for (const char *p = text; *whole && p < text + *size; p += strlen(p) + 1) {
    *whole = strchr(p, '=');
  }
  return text;
}

const char *shard_process_variable(const char *environment, size_t size, const char *name) {
  size_t n = strlen(name);
  for (const char *p = environment; p < environment + size; p += strlen(p) + 1) {
    if (strncmp(p, name, n) == 0 && p[n] == '=') {
      return p + n + 1;
    }
  }
  return NULL;
}

bool shard_process_in_user_namespace(void) {
  size_t size;
  char *map = shard_file_read("/proc/self/uid_map", &size);
  /* user_namespaces(7): first id inside, first id outside, number of ids; the initial namespace
   * maps all ids */
  char *end = map;
  unsigned long inside = map ? strtoul(map, &end, 10) : 1;
  unsigned long outside = map ? strtoul(end, &end, 10) : 1;
  bool first = map && inside == 0 && outside == 0 && strtoul(end, NULL, 10) == UINT32_MAX;
  free(map);
  return !first;
}

long shard_process_own_pid(void) {
  char text[24];
  ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);
  text[n > 0 ? n : 0] = 0;
  return strtol(text, NULL, 10);
}

int64_t shard_process_start_time(unsigned long long start) {
  struct timespec boot;
  long ticks = sysconf(_SC_CLK_TCK);
  shard_clock_read(CLOCK_BOOTTIME, &boot);
  int64_t since_boot = boot.tv_sec * 1000000000LL + boot.tv_nsec;
  return shard_clock_real_ns() - since_boot +
         (int64_t)(start + 1) * (1000000000LL / (ticks > 0 ? ticks : 100));
}
