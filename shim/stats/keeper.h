/* SPDX-License-Identifier: MIT */
/*
 * keeper.h - who keeps a rank's log: its main process makes it, and makes the statistics of it at
 * the end; the processes that it starts join it.
 *
 * shard_stats_state tells what has become of it. errno may change.
 */
#pragma once

#include <stdbool.h>

struct shard_world;

/* Whether the environment names a log. */
bool shard_keeper_is_marked(void);

/* Join the log that the environment names, or make one. pattern: SHARD_STATS. */
void shard_keeper_init(const char *pattern);

/*
 * This is the rank's main process: make the log. Or join the one that stands there, if a parent
 * keeps it, or a process that has been started beside this one. What others keep there is replaced,
 * and counts as lost.
 */
void shard_keeper_begin(const struct shard_world *world);

/* If this is the main process, or the last one of those that are: make the statistics, once. */
void shard_keeper_end(void);
