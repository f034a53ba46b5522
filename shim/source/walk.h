/* SPDX-License-Identifier: MIT */
/* walk.h - finds the names below a directory, by getdents64 in several threads (shardctl only). */
#pragma once

#include <stddef.h>

struct shard_intake;

/* The most threads of a walk. Each thread has a buffer of 256 KB, or 1/256 of SHARD_BUILD_MEMORY if
 * that is less, and some 20 KB more. */
#define SHARD_WALK_THREADS 64

/*
 * Walk `root`, with so many threads at most, and give what is found to the intake. 0, or a negative
 * errno; err[size] stays as it is if a function of the intake failed. Four threads begin; more come
 * while all of them wait for the file system. If a thread cannot be started, fewer do the work.
 *
 * If a directory changes while it is read, its names may be incomplete: -EAGAIN. If it changed less
 * than a clock tick before it is read, the walk waits for a tick first, so that no later change can
 * leave the ctime as it is (git's "racy" rule). After the last directory the walk looks at each
 * directory once more: -EAGAIN if one has changed, for the names are to be those of one moment.
 */
int shard_walk(const char *root, struct shard_intake *intake, size_t threads, char *err,
               size_t size);
