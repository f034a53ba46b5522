/* SPDX-License-Identifier: MIT */
/*
 * logs.h - reads the logs of a run (SHARD_STATS, stats/log.h), and adds them up by dataset, epoch
 * and rank.
 *
 * A log is not trusted: a file that is no valid log is reported, and is not counted. For one thread
 * alone. Memory is not freed. If there is no memory, the functions end the process with a message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/log.h"

struct shard_listing;

/* The log of a process. */
struct ctl_log {
  char *path;
  struct shard_log_head head;
  uint64_t notes;                  /* places that the file has */
  uint64_t lost;                   /* opens that were not noted, or whose notes cannot be read */
  uint64_t torn;                   /* places that were taken for a note, and have no note */
  int dataset[SHARD_LOG_DATASETS]; /* by the process's number of a dataset: the run's; -1: none */
};

/* A dataset. */
struct ctl_dataset {
  char *root;    /* with a slash at the end */
  size_t index;  /* in `datasets` of the run */
  uint64_t all;  /* files in the list of all names (the program's, or --listing); 0: no list */
  uint64_t seen; /* private to logs.c */
};

/* A way in which processes get a dataset's names, by the shares that the processes have noted. */
struct ctl_division {
  struct ctl_dataset *dataset;
  struct shard_log_share told;   /* a share with rank, previous and root_length 0 */
  char digest[65];               /* of the listing; "": no listing */
  char *file;                    /* the listing's path; "": no listing */
  struct shard_listing *listing; /* the open listing with this digest; NULL: it was not found */
};

/* The files of a dataset that a rank has opened in an epoch. */
struct ctl_cell {
  int rank;
  struct ctl_dataset *dataset;
  uint64_t epoch;
  const struct ctl_division *division; /* NULL: the rank has not listed the dataset */
  const struct ctl_division *mixed;    /* another division that the rank has noted; NULL: none */
  bool known;                          /* which files are the rank's own is known */
  /* Opens; distinct files opened; checksums of the hashes of distinct files, and of all opens. */
  uint64_t opens, distinct, sum, weight;
  uint64_t own, read, others;  /* own files; own files opened; other files opened */
  uint64_t least, most;        /* fewest and most opens of an own file that was opened */
  uint64_t seen;               /* private to logs.c */
  uint32_t index, epoch_index; /* in `cells` and `epochs` of the run */
};

/* The cells of a dataset in an epoch, by rank, and the counts of all ranks together. */
struct ctl_epoch {
  struct ctl_dataset *dataset;
  uint64_t number;
  struct ctl_cell **cells;
  size_t count;
  uint64_t opened;    /* distinct files that any rank has opened */
  uint64_t owned;     /* distinct files that are own files of any rank */
  uint64_t elsewhere; /* own files that are not in the list of all names */
  uint64_t seen[2];   /* private to logs.c */
};

/* The logs of a run, and their sums. */
struct ctl_run {
  struct ctl_log *logs; /* by rank */
  size_t log_count;
  int size;   /* number of ranks; 0: the logs tell several sizes */
  char **bad; /* lines about files that are no valid logs */
  size_t bad_count;
  struct ctl_dataset **datasets;
  size_t dataset_count;
  struct ctl_division **divisions;
  size_t division_count;
  struct ctl_cell **cells; /* by root, epoch and rank */
  size_t cell_count;
  struct ctl_epoch *epochs; /* by root and number */
  size_t epoch_count;
  void *tree; /* of cells */
};

/*
 * Reads the heads and the shares of all logs. If no log has a rank, all logs count for rank 0 of 1.
 * run: zeroed by the caller.
 * folders: the paths of the folders, and NULL.
 * whole: the path of a listing of all names, used where the listing of a division is missing; or
 * NULL.
 * Returns CTL_DONE, or CTL_FAILED after a message.
 */
int ctl_logs_read(struct ctl_run *run, char **folders, const char *whole);

/* What a cell counts: a rank's opens of one dataset in one epoch, in one epoch, or in the run. */
enum ctl_logs_by { CTL_BY_DATASET, CTL_BY_EPOCH, CTL_BY_RANK };

/*
 * Reads the notes of all logs, and makes the cells and the epochs of the run.
 * by: only with CTL_BY_DATASET are the own files of a rank told from other files.
 * whole: as in ctl_logs_read().
 */
void ctl_logs_count(struct ctl_run *run, enum ctl_logs_by by, const char *whole);
