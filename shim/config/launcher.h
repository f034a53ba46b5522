/* SPDX-License-Identifier: MIT */
/*
 * launcher.h - which job this process belongs to; for its rank see shard_world_get() (libshard.h).
 *
 * Each call reads the environment and /proc anew; nothing is kept. Thread-safe as getenv(3) is.
 * errno is left alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_LAUNCHER_JOB_SIZE 2048 /* bytes for shard_launcher_job() */

/*
 * Print the job's identity into buf[size]: a text that all processes of the job on this node share,
 * and no other job has. false if no launcher is known, nothing distinguishes its jobs, or the text
 * does not fit.
 */
bool shard_launcher_job(char *buf, size_t size);

/*
 * Whether the job runs on several hosts: the launcher tells that this one has some of the ranks
 * only. Then *since is the time when the launcher started its part on this host, ns since 1970, or,
 * if the launcher's process cannot be seen, the time when this rank started: what was changed
 * before is as all ranks here find it. *numbered: the job has one identity on all hosts.
 */
bool shard_launcher_is_on_hosts(int64_t *since, bool *numbered);

/* A variable that the table of launchers reads. */
struct shard_launcher_variable {
  const char *name;   /* static storage */
  char launchers[64]; /* those that set it, separated by ", " */
};

#define SHARD_LAUNCHER_VARIABLES 80 /* more than the table reads */

/* List all of them, each name once. Returns how many. */
size_t shard_launcher_list(struct shard_launcher_variable out[SHARD_LAUNCHER_VARIABLES]);
