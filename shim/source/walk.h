/* SPDX-License-Identifier: MIT */
/* walk.h - finds the names below a directory, by getdents64 in several threads (shardctl only). */
#pragma once

#include <stddef.h>

struct shard_intake;

/*
 * Threads of a walk, at most. Each thread has a buffer of 1/256 of SHARD_BUILD_MEMORY, but of at
 * least 32 KB and at most 256 KB, and touches some 20 KB of its stack.
 */
#define SHARD_WALK_THREADS 64

/*
 * Walks the directory `root`, and gives the entries found to the intake. Four threads begin; more
 * are started while all threads wait for the file system. If a thread cannot be started, fewer
 * threads do the work. All threads have ended when the function returns.
 *
 * A directory that has changed less than a clock tick ago is read a tick later, so that every later
 * change changes the ctime (git's "racy" rule). After the last directory the walk looks at each
 * directory once more, so that the names are the names of one moment.
 *
 * threads: threads at most; besides, RLIMIT_NOFILE / 8 threads at most are started.
 * Errors: -EAGAIN, a directory has changed since the walk read it, and its names may be incomplete.
 * err[size] is not changed if a function of the intake failed.
 */
int shard_walk(const char *root, struct shard_intake *intake, size_t threads, char *err,
               size_t size);
