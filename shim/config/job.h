/* SPDX-License-Identifier: MIT */
/* job.h - which job this process belongs to, so that all its ranks can use one listing. */
#ifndef SHARD_CONFIG_JOB_H
#define SHARD_CONFIG_JOB_H

#include <stdbool.h>
#include <stddef.h>

#define SHARD_JOB_SIZE 2048 /* enough for any */

/*
 * A text that all processes of the job on this node have, and no other job, in buf[size]. false if
 * there is none: no launcher is known, or it cannot be told from an earlier job of its kind.
 */
bool shard_job_identity(char *buf, size_t size);

#endif
