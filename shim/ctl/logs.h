/* SPDX-License-Identifier: MIT */
/*
 * logs.h - the logs of a run (SHARD_STATS, stats/log.h), read and added up by rank, dataset and
 * epoch. Anybody may have written them: what is not sound is not read, and is named.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A process's log. */
struct ctl_log {
  char *path, *host, *name; /* name: that its process gave the file */
  int rank, size;           /* -1: not known */
  int64_t pid, begun, ended;
  uint64_t start, namespace, job;
  uint64_t notes, lost; /* lost: places without a note are not counted in it until all are read */
  int dataset[32];      /* numbers of the process's datasets in the run; -1: none */
};

/* What processes have told of how they come to a dataset's names: equal ones are one. */
struct ctl_facts {
  uint32_t how, strategy, size, shuffled, remainder, sample; /* as struct shard_log_share */
  uint64_t seed, entries, used, needed;
  uint64_t samples; /* of the listing, if it is there */
  char digest[65];
  char *file;    /* the listing's */
  bool is_there; /* it is the listing with this digest */
  size_t dataset;
};

/* That the rank has told them in an epoch. */
struct ctl_share {
  int rank;
  uint64_t epoch;
  size_t dataset, facts;
};

/* What a rank has opened of a dataset in an epoch. */
struct ctl_cell {
  int rank;
  uint64_t epoch;
  size_t dataset;
  size_t facts;      /* of its share, or SIZE_MAX */
  bool mixed, known; /* processes have told different facts; which files are its own is known */
  uint64_t opens, distinct, sum, weight; /* sum of the distinct names' hashes; of all opens' */
  uint64_t own, read, others;            /* its files; those opened; opened files not its own */
  uint64_t least, most;                  /* opens of one of its files that were opened */
  uint64_t served, served_sum;
};

/* A directory. */
struct ctl_place {
  dev_t dev;
  ino_t ino;
};

struct ctl_run {
  struct ctl_log *logs; /* by rank */
  size_t log_count;
  char **roots;              /* of datasets, with a slash at the end */
  size_t root_count, *order; /* of their names: processes tell of datasets in any */
  struct ctl_facts *facts;
  size_t facts_count;
  struct ctl_share *shares; /* by rank, dataset, epoch */
  size_t share_count;
  struct ctl_cell *cells; /* by rank, dataset, epoch */
  size_t cell_count;
  char **bad; /* lines about files that are no logs */
  size_t bad_count;
  struct ctl_place *places; /* directories that were read */
  size_t place_count;
  uint64_t lost;
  bool no_rank; /* none is known: all logs are taken for those of rank 0 of 1 */
};

/* Read the heads and shares of all logs in a directory, besides what *run has; one that was read
 * is not read again. CTL_DONE or CTL_FAILED after a message. */
int ctl_logs_read(struct ctl_run *run, const char *directory);

/*
 * Read all notes, once ctl_logs_read() has read the directories. whole: a listing that stands for
 * all names where none is used (strategy hash, a world of one), or NULL. merge: without epochs.
 */
int ctl_logs_count(struct ctl_run *run, const char *whole, bool merge);

/* How many names of a dataset were opened in an epoch by any rank; UINT64_MAX: not enough memory.
 */
uint64_t ctl_logs_union(struct ctl_run *run, size_t dataset, uint64_t epoch);

/* Number and sum of hashes of the names of a listing below a root: all, or the first `most`. false:
 * it cannot be read, or its digest is another one (NULL: any). */
bool ctl_logs_sum(const char *file, const char *digest, const char *root, uint64_t most,
                  uint64_t *count, uint64_t *sum);
