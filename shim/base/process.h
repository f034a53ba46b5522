/* SPDX-License-Identifier: MIT */
/* process.h - what /proc tells of a process. Allocates; errno may change. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct shard_process {
  long parent;
  unsigned long long start; /* in clock ticks since boot */
  bool ended;               /* nobody has waited for it yet */
};

/* false if it is gone. */
bool shard_process_read(long pid, struct shard_process *out);

/* This process, as /proc numbers it: it may be that of an outer pid namespace. 0 if it is not
 * there. */
long shard_process_self(void);

/* When a process started: ns since 1970, not too early. */
int64_t shard_process_started(unsigned long long start);
