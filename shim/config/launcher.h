/* SPDX-License-Identifier: MIT */
/*
 * launcher.h - what the launcher of this process tells: beside shard_world_get() (libshard.h),
 * which job the process belongs to. All of it is read from the environment and /proc, at each call.
 *
 * Thread-safe as getenv(3) is; nothing is kept. errno is left alone.
 */
#ifndef SHARD_CONFIG_LAUNCHER_H
#define SHARD_CONFIG_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>

#define SHARD_LAUNCHER_JOB_SIZE 2048 /* enough for any */

/*
 * The identity of the job, in buf[size]: a text that all processes of the job on this node have,
 * and that no other job has. false if there is none: no launcher is known, or its jobs cannot be
 * told from one another.
 */
bool shard_launcher_job(char *buf, size_t size);

/* A variable that is read, and the launchers that set it, separated by ", ". */
struct shard_launcher_variable {
  const char *name; /* static storage */
  char launchers[64];
};

#define SHARD_LAUNCHER_VARIABLES 64 /* more than there are */

/* Fill in all of them, each name once. How many there are. */
size_t shard_launcher_list(struct shard_launcher_variable out[SHARD_LAUNCHER_VARIABLES]);

#endif
