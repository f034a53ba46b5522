/* SPDX-License-Identifier: MIT */
/* walk.h - finds the names below a directory, by getdents64 in several threads (shardctl only). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct shard_intake;

/*
 * Walk `root`, with so many threads at most: each gives what it finds to a hand of the intake. 0,
 * or a negative errno; err[size] stays as it is if a function of the intake failed.
 *
 * If a directory changes while it is read, its names may be incomplete: -EAGAIN. If it changed less
 * than a clock tick before it is read, the walk waits for a tick first, so that no later change can
 * leave the ctime as it is (git's "racy" rule).
 *
 * With options->chunk one thread reads everything, in the order that chunks are counted in.
 *
 * in_parts: several threads may read one directory where the file system allows it. If that turns
 * out not to work: -EAGAIN, too; walk again without.
 */
int shard_walk(const char *root, struct shard_intake *intake, size_t threads, bool in_parts,
               char *err, size_t size);
