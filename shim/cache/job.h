/* SPDX-License-Identifier: MIT */
/*
 * job.h - finds the job of this process: all ranks of a launch on this host have one job, and no
 * other launch has the same job.
 *
 * The job's name holds the first ancestor that was not started with the rank's values (mpirun, a
 * proxy, torchrun's agent), and the launch id. If the launcher numbers its jobs, the name holds the
 * launch id and the boot. If SHARD_JOB is set, the job's name is the value of SHARD_JOB.
 *
 * The folder "ranks" of the cache directory holds symbolic links of two kinds; HASH is 16 digits.
 *   link-PID-HASH   the target is the job of process PID, which has set its rank itself: /proc does
 *                   not show such a rank, so the processes that PID starts find the job here
 *   said-HASH       the job has printed this warning
 * About one in 64 processes that leave a link-PID-HASH then removes the links that are older than a
 * day, except the links of processes that are alive.
 *
 * A forked child inherits the job that its parent has found.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/launcher.h"

#define SHARD_JOB_SIZE 1600 /* bytes: less than a symbolic link can hold */
#define SHARD_JOB_OWNER 80  /* bytes */

struct shard_job {
  char name[SHARD_JOB_SIZE];
  bool held; /* a later job may have this name: the job ends with the last of its processes */
};

/*
 * Finds the job from the result of shard_launcher_find(), and leaves the link (link-PID-HASH) if
 * this process has set its rank itself.
 * Returns false if no job is known, or if the job cannot be told now.
 */
bool shard_job_find(const struct shard_launcher *found, struct shard_job *out);

/*
 * Finds the job of this process. The job is this process alone if `alone` is set or no launcher is
 * known. Keeps errno.
 * Errors: a negative errno: the job cannot be told now, for lack of descriptors, memory or /proc.
 */
int shard_job_get(bool alone, struct shard_job *out);

/* Prints the OWNER in the names of a job's listings (filenames.h). */
void shard_job_owner(const struct shard_job *job, char owner[SHARD_JOB_OWNER]);

/*
 * Returns a hash of the name of this process's job; 0 if the job is held or not known. Keeps errno.
 */
uint64_t shard_job_number(void);

/*
 * Finds the job for this process's children to inherit, if this process has set its rank itself.
 * Called before this process forks. Keeps errno.
 */
void shard_job_before_fork(void);

/*
 * Prints a warning to stderr, unless a process of the job on this host has printed a warning of the
 * same kind. If no job is known, the warning is printed. Keeps errno.
 * found: the result of shard_launcher_find(). kind: a word. text: the warning.
 */
void shard_job_say_once(const struct shard_launcher *found, const char *kind, const char *text);
