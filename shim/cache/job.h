/* SPDX-License-Identifier: MIT */
/*
 * job.h - which job this process is of: all ranks of a launch on this host have one, and no other
 * launch has.
 *
 * The job is the first ancestor that was not started with the rank's values (mpirun, a proxy,
 * torchrun's agent), and the launcher's marks; where the launcher numbers its jobs, the marks
 * alone.
 *
 * The folder "ranks" of the cache directory holds three kinds of small files. All names are hashes.
 *   link-HASH    symbolic link, left by a process that has set its numbers itself, to its job: what
 *                the process starts finds the job there, as /proc does not show such numbers
 *   held-HASH    a number, for a job whose name may come again. Each process of the job holds a
 *                shared lock on the file, to its end; who finds nobody there writes a new number
 *   said-HASH    symbolic link: the job has printed this line
 * Who makes one of these removes what is old there.
 *
 * Thread-safe. What is found is inherited by fork. errno is left alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/launcher.h"

#define SHARD_JOB_SIZE 1600                  /* bytes: less than a symbolic link can hold */
#define SHARD_JOB_ROOM (SHARD_JOB_SIZE + 32) /* for shard_job_get() */

struct shard_job {
  char name[SHARD_JOB_SIZE];
  bool held; /* the name may come again: the job lasts only as long as one of its processes */
};

/* The job of what shard_launcher_find() has found. Leaves the link. false: there is none. */
bool shard_job_find(const struct shard_launcher *found, struct shard_job *out);

/*
 * Print the identity of this process's job into buf[size]: a text that all processes of the job on
 * this host share, and no other job has. Takes the lock of a job that is held. 1; 0: no launcher is
 * known, the cache directory cannot be written to, or the text does not fit; a negative errno:
 * there is no descriptor or memory left to tell.
 */
int shard_job_get(char *buf, size_t size);

/* A hash of the identity of a job that is not held; 0: it is held, or not known. */
uint64_t shard_job_number(void);

/* Before this process forks: if it has set its rank itself, find the job that its children inherit.
 */
void shard_job_before_fork(void);

/* Print a warning, unless a process of the job has printed one of this kind. */
void shard_job_say_once(const struct shard_launcher *found, const char *kind, const char *text);
