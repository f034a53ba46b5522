/* SPDX-License-Identifier: MIT */
/* process.h - processes as /proc shows them. The functions allocate. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_process {
  long parent;
  long user;                /* real user id */
  unsigned long long start; /* clock ticks since boot */
  bool ended;               /* a zombie */
};

/* Reads a process's state. Returns false if the process is gone, or /proc hides it. */
bool shard_process_read(long pid, struct shard_process *out);

/*
 * Reads the environment that a process was started with: "NAME=value" and a NUL for each variable.
 * *whole: whether the process has not overwritten it; programs that set a process title do.
 * Returns text that the caller frees.
 * Errors: NULL, it cannot be read.
 */
char *shard_process_environment(long pid, size_t *size, bool *whole);

/* Returns a variable's value in such an environment; NULL if the variable is missing. Pure. */
const char *shard_process_variable(const char *environment, size_t size, const char *name);

/*
 * Returns whether this process is in a user namespace other than the initial one. There, processes
 * outside the namespace seem to belong to other users.
 */
bool shard_process_in_user_namespace(void);

/*
 * Returns this process's pid as /proc has it, perhaps of an outer PID namespace; 0 without /proc.
 */
long shard_process_own_pid(void);

/*
 * Converts struct shard_process's start time to ns since 1970.
 * Returns a time that is not before the real start: the clock tick is rounded up.
 */
int64_t shard_process_start_time(unsigned long long start);
