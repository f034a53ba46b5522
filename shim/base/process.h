/* SPDX-License-Identifier: MIT */
/* process.h - what /proc tells of a process. Allocates; errno may change. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_process {
  long parent;
  long user; /* the real user id */
  unsigned long long start; /* in clock ticks since boot */
  bool ended;               /* nobody has waited for it yet */
};

/* false if it is gone, or /proc hides it. */
bool shard_process_read(long pid, struct shard_process *out);

/*
 * The environment that a process was started with, "NAME=value" and a NUL each: malloc'd, the
 * caller's to free; NULL if it cannot be read. *whole: the process has not written over it, as who
 * sets a title does.
 */
char *shard_process_environment(long pid, size_t *size, bool *whole);

/* A variable's value in such an environment; NULL: it is not there. */
const char *shard_process_variable(const char *environment, size_t size, const char *name);

/* Whether this process is in another user namespace than the first one: processes outside look as
 * if they were other users'. */
bool shard_process_in_user_namespace(void);

/* This process, as /proc numbers it: it may be that of an outer pid namespace. 0 if it is not
 * there. */
long shard_process_self(void);

/* When a process started: ns since 1970, not too early. */
int64_t shard_process_started(unsigned long long start);
