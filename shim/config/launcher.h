/* SPDX-License-Identifier: MIT */
/*
 * launcher.h - which rank of which world this process is, by one climb over its ancestors; for rank
 * and size alone see shard_world_get() (libshard.h), for the job cache/job.h.
 *
 * A variable may be an outer launcher's, left over, a copy, or set late by the program, so no
 * launcher has priority. What a process was *started* with (/proc/PID/environ) tells which numbers
 * are the youngest: an inner launcher has set them.
 *
 * Thread-safe as getenv(3) is. errno is left alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "libshard.h"

enum shard_launcher_kind {
  SHARD_LAUNCHER_PROCESS,  /* a process of its own starts each job */
  SHARD_LAUNCHER_NUMBERED, /* it numbers its jobs: the marks tell one from another */
  SHARD_LAUNCHER_ANYBODY   /* anybody may set these variables: a wrapper, a program, a user */
};

/* A process on the way up. */
struct shard_launcher_process {
  long pid;                 /* as /proc numbers it; 0: there is no /proc */
  unsigned long long start; /* clock ticks since boot; 0: /proc hides the process */
  unsigned started;         /* a bit for each row, in the table's order, that it was started with */
};

#define SHARD_LAUNCHER_MARKS 1024 /* bytes */

/* One launcher's rank and size, both set. */
struct shard_launcher_row {
  const char *launcher, *names[2];  /* static: the launcher's, rank's and size's */
  char rank[24], size[24];          /* the values, or what is no number */
  char marks[SHARD_LAUNCHER_MARKS]; /* what tells launches apart, with a ':' before each */
  unsigned bit;                     /* in `started` of a process */
  enum shard_launcher_kind kind;
  unsigned age; /* processes, from this one upwards, that were started with the row's values */
  bool found;   /* `end` was not started with them, and that could be seen */
  struct shard_launcher_process end, topmost; /* where the climb ended; the last with the values */
  int local_rank, local_size;                 /* -1: not known */
  bool several_nodes;                         /* the launcher tells that the job has more */
};

/* Whether a row's world has one rank. */
static inline bool shard_launcher_is_of_one(const struct shard_launcher_row *row) {
  return strcmp(row->size, "1") == 0;
}

/* Whether two rows tell the same rank and size. */
static inline bool shard_launcher_agree(const struct shard_launcher_row *a,
                                        const struct shard_launcher_row *b) {
  return strcmp(a->rank, b->rank) == 0 && strcmp(a->size, b->size) == 0;
}

#define SHARD_LAUNCHER_ROWS 16
#define SHARD_LAUNCHER_STEPS 64

/* What one climb has found. Large: for the heap. */
struct shard_launcher {
  struct shard_world world;
  const struct shard_launcher_row *youngest; /* of a launcher, in rows; NULL: none */
  const struct shard_launcher_row *own;      /* SHARD_RANK and SHARD_SIZE; NULL: not set */
  size_t count, steps;
  struct shard_launcher_row rows[SHARD_LAUNCHER_ROWS];     /* the youngest first */
  struct shard_launcher_process way[SHARD_LAUNCHER_STEPS]; /* from this process upwards */
  int rc; /* 0; -EINVAL; -ENOENT: no launcher has started this; or /proc cannot be read now, */
  char line[500]; /* and what is said of it */
  char note[500]; /* what a user should know of a world that is found; "": nothing */
};

/* Note what this process was started with: when the library is loaded, before a title is written
 * over the environment or a variable is set. */
void shard_launcher_start(char *const *environment);

/* Look, and climb if a launcher is seen: some files of /proc for each ancestor. */
void shard_launcher_find(struct shard_launcher *out);

/* Whether a row's values, or SHARD_RANK and SHARD_SIZE, were set after this process was started. */
bool shard_launcher_is_late(void);

/*
 * Whether the job runs on several hosts: the launcher tells that this one has some of the ranks
 * only. Then *since is the time when the launcher started its part on this host, ns since 1970, or,
 * if the launcher's process cannot be seen, the time when this rank started: what was changed
 * before is as all ranks here find it.
 */
bool shard_launcher_is_on_hosts(int64_t *since);

/* The variables that the table of launchers reads: `place` counts from 0 on. A variable may come
 * several times. false: past the end. *name is NULL at a place that has none. */
bool shard_launcher_variable(size_t place, const char **name, const char **launcher);
