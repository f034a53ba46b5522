/* SPDX-License-Identifier: MIT */
/*
 * launcher.h - which rank of which world this process is, found by one walk over its ancestors.
 * shard_world_get() (libshard.h) gives rank and size alone; cache/job.h gives the job.
 *
 * A variable may be an outer launcher's, left over, a copy, or set late by the program, so no
 * launcher has priority. The environment that a process was *started* with (/proc/PID/environ)
 * tells which values are the youngest: an inner launcher has set them.
 *
 * Thread-safe as getenv(3) is. Keeps errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "libshard.h"

enum shard_launcher_kind {
  SHARD_LAUNCHER_PROCESS,  /* a process of its own starts each job */
  SHARD_LAUNCHER_NUMBERED, /* the launcher numbers its jobs: the launch id tells jobs apart */
  SHARD_LAUNCHER_ANYBODY   /* a wrapper, a program or a user may set these variables, too */
};

/* A process of the walk. */
struct shard_launcher_process {
  long pid;                 /* as /proc numbers it; 0: there is no /proc */
  unsigned long long start; /* clock ticks since boot; 0: /proc hides the process */
  unsigned started;         /* bits of the rows that the process was started with */
};

#define SHARD_LAUNCHER_ID_ROOM 1024 /* bytes */

/* One launcher's rank and size, both set. */
struct shard_launcher_row {
  const char *launcher, *names[2]; /* static: the launcher, the rank's and the size's variable */
  char rank[24], size[24];         /* the values, perhaps no numbers */
  char launch_id[SHARD_LAUNCHER_ID_ROOM]; /* values that tell launches apart, each after a ':' */
  unsigned bit;                           /* the row's bit in `started` of a process */
  enum shard_launcher_kind kind;
  unsigned age; /* processes, from this one upwards, that were started with the row's values */
  bool above_differs; /* `above` is known to have been started without the row's values */
  struct shard_launcher_process above, highest; /* where the walk ended; the last with the values */
  int local_rank, local_size;                   /* -1: not known */
  bool several_nodes; /* the launcher says that the job has several nodes */
};

/* Returns whether a row's world has one rank. */
static inline bool shard_launcher_is_world_of_one(const struct shard_launcher_row *row) {
  return strcmp(row->size, "1") == 0;
}

/* Returns whether two rows have the same rank and size. */
static inline bool shard_launcher_agree(const struct shard_launcher_row *a,
                                        const struct shard_launcher_row *b) {
  return strcmp(a->rank, b->rank) == 0 && strcmp(a->size, b->size) == 0;
}

#define SHARD_LAUNCHER_ROWS 16
#define SHARD_LAUNCHER_ANCESTORS 64

/* The result of one walk. For the heap: it is large. */
struct shard_launcher {
  struct shard_world world;
  const struct shard_launcher_row *youngest; /* of a launcher, in rows; NULL: none */
  const struct shard_launcher_row *explicit; /* SHARD_RANK and SHARD_SIZE; NULL: not set */
  size_t count, ancestor_count;
  struct shard_launcher_row rows[SHARD_LAUNCHER_ROWS];               /* the youngest first */
  struct shard_launcher_process ancestors[SHARD_LAUNCHER_ANCESTORS]; /* from this process upwards */
  int rc; /* 0; -EINVAL; -ENOENT: no launcher has started this process; or why /proc is unreadable
           */
  char line[500]; /* the line about rc */
  char note[500]; /* a hint about a world that was found; "": none */
};

/*
 * Notes the environment that this process was started with. Called when the library is loaded,
 * before the program sets variables or overwrites its environment with a title. Not thread-safe.
 */
void shard_launcher_note_start(char *const *environment);

/*
 * Finds rank and size from the variables; if a launcher's are set, walks over the ancestors, which
 * reads some files of /proc for each.
 */
void shard_launcher_find(struct shard_launcher *out);

/*
 * Returns whether a row's values, or SHARD_RANK and SHARD_SIZE, were set after the process's start.
 */
bool shard_launcher_was_set_late(void);

/*
 * Returns whether the job runs on several hosts, as the launcher says.
 * *since: when the launcher started its part on this host, ns since 1970; if /proc hides the
 * launcher's process, when this rank was started. All ranks of this host find a change of a file
 * before that time alike.
 */
bool shard_launcher_spans_hosts(int64_t *since);

/*
 * Gets one of the variables that the table of launchers reads; a variable may come several times.
 * i: from 0 on.
 * *name: NULL if there is no variable at i.
 * Returns false past the end.
 */
bool shard_launcher_variable(size_t i, const char **name, const char **launcher);
