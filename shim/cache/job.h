/* SPDX-License-Identifier: MIT */
/*
 * job.h - which job this process is of: all ranks of a launch on this host have one, and no other
 * launch has.
 *
 * The job is the first ancestor that was not started with the rank's values (mpirun, a proxy,
 * torchrun's agent), and the launch id; where the launcher numbers its jobs, the launch id
 * alone.
 *
 * The folder "ranks" of the cache directory holds two kinds of small files. All names are hashes.
 *   link-HASH    symbolic link, left by a process that has set its numbers itself, to its job: what
 *                the process starts finds the job there, as /proc does not show such numbers
 *   said-HASH    symbolic link: the job has printed this line
 * Who makes one of these removes what is old there.
 *
 * Thread-safe. What is found is inherited by fork. errno is left alone.
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
  bool held; /* the name may come again: the job lasts only as long as one of its processes */
};

/* The job of what shard_launcher_find() has found. Leaves the link. false: there is none. */
bool shard_job_find(const struct shard_launcher *found, struct shard_job *out);

/*
 * The job of this process; itself, if it is `alone` or no launcher is known. 0, or a negative
 * errno: there is no descriptor or memory left to tell.
 */
int shard_job_get(bool alone, struct shard_job *out);

/* Print the OWNER of a job's files (filenames.h). */
void shard_job_owner(const struct shard_job *job, char owner[SHARD_JOB_OWNER]);

/* A hash of the identity of a job that is not held; 0: it is held, or not known. */
uint64_t shard_job_number(void);

/* Before this process forks: if it has set its rank itself, find the job that its children inherit.
 */
void shard_job_before_fork(void);

/* Print a warning, unless a process of the job has printed one of this kind. */
void shard_job_say_once(const struct shard_launcher *found, const char *kind, const char *text);
