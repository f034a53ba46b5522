/* SPDX-License-Identifier: MIT */
/*
 * logs.h - reads the logs of a run (SHARD_STATS, stats/log.h), and adds them up by dataset, epoch
 * and rank.
 *
 * Anybody may have written a log: a file that is not sound is not read, and is reported. One
 * thread. Memory is not freed; without memory the process ends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/log.h"

struct shard_listing;

/* A process's log. */
struct ctl_log {
  char *path;
  struct shard_log_head head;
  uint64_t notes;                  /* places that the file has */
  uint64_t lost;                   /* opens that were not noted, or whose notes cannot be read */
  uint64_t torn;                   /* places that were taken for a note, and have none */
  int dataset[SHARD_LOG_DATASETS]; /* numbers of the process's datasets in the run; -1: none */
};

/* A dataset. */
struct ctl_dataset {
  char *root;    /* with a slash at the end */
  size_t index;  /* in the run's list */
  uint64_t all;  /* files in the list of all names: the program's, or --listing; 0: none */
  uint64_t seen; /* for logs.c */
};

/* How processes come to a dataset's names, by the shares that they have noted. */
struct ctl_division {
  struct ctl_dataset *dataset;
  struct shard_log_share told;   /* without rank, previous and root_length */
  char digest[65];               /* of the listing; "": there is none */
  char *file;                    /* the listing's path; "": none */
  struct shard_listing *listing; /* the listing with this digest; NULL: it is not there */
};

/* What a rank has opened of a dataset in an epoch. */
struct ctl_cell {
  int rank;
  struct ctl_dataset *dataset;
  uint64_t epoch;
  const struct ctl_division *division;   /* NULL: the rank has not listed the dataset */
  const struct ctl_division *mixed;      /* another division that the rank has noted; NULL: none */
  bool known;                            /* which files are the rank's own is known */
  uint64_t opens, distinct, sum, weight; /* sum of the distinct names' hashes; of all opens' */
  uint64_t own, read, others;            /* its files; those opened; opened files not its own */
  uint64_t least, most;                  /* opens of one of its files that were opened */
  uint64_t seen;                         /* for logs.c */
  uint32_t index, epoch_index;           /* in the run's lists */
};

/* The cells of a dataset in an epoch, by rank; and what is known of them together. */
struct ctl_epoch {
  struct ctl_dataset *dataset;
  uint64_t number;
  struct ctl_cell **cells;
  size_t count;
  uint64_t opened;    /* distinct files that any rank has opened */
  uint64_t owned;     /* distinct files that are a rank's own */
  uint64_t elsewhere; /* of these, files that are not in the list of all names */
  uint64_t seen[2];   /* for logs.c */
};

struct ctl_run {
  struct ctl_log *logs; /* by rank */
  size_t log_count;
  int size;   /* ranks; 0: logs tell several sizes */
  char **bad; /* lines about files that are no logs */
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
 * Read the heads and the shares of all logs. If no log has a rank, all logs count for rank 0 of 1.
 *
 * run: zeroed. folders: their paths, and NULL.
 * whole: a listing of all names, used where the listing of a division is missing; or NULL.
 * Returns CTL_DONE, or CTL_FAILED after a message.
 */
int ctl_logs_read(struct ctl_run *run, char **folders, const char *whole);

/* What a cell counts of a rank: a dataset in an epoch; an epoch; all the run. */
enum ctl_logs_by { CTL_BY_DATASET, CTL_BY_EPOCH, CTL_BY_RANK };

/* Read all notes, and fill in cells and epochs. Files are told apart by rank with CTL_BY_DATASET
 * only. */
void ctl_logs_count(struct ctl_run *run, enum ctl_logs_by by, const char *whole);
