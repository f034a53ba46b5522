/* SPDX-License-Identifier: MIT */
/*
 * log.h - the file in which the processes of a rank note what SHARD_STATS asks for, byte by byte.
 *
 * TARGET.log is made by the rank's main process and mapped by all of its processes. A note is a
 * store into shared memory: no descriptor is kept open, nothing is locked, and what was noted stays
 * whatever kills the process. Space is reserved before it is touched, so a full disk is a count of
 * lost notes, never a SIGBUS. At the end of the main process `shardctl stats` makes TARGET of it;
 * what is noted after that is told there as lost.
 *
 *   0         struct shard_log_head
 *   12 KiB    struct shard_log_dataset [SHARD_LOG_DATASETS]
 *   512 KiB   struct shard_log_note [], reserved 512 KiB (a segment) at a time
 *
 * All zero bytes: nothing was noted there. Written and read on one machine.
 */
#pragma once

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>

#include "listing/options.h"

#define SHARD_LOG_MAGIC 0x31676f6c64726873ULL /* "shrdlog1" */
#define SHARD_LOG_SEGMENT (1UL << 19)
#define SHARD_LOG_SEGMENTS 4096
#define SHARD_LOG_NOTES (SHARD_LOG_SEGMENT / sizeof(struct shard_log_note)) /* in a segment */
#define SHARD_LOG_DATASETS 32
#define SHARD_LOG_HEAD 12288
#define SHARD_LOG_KEEPERS 16
#define SHARD_LOG_PID(keeper) ((int64_t)((keeper)&0x3fffff)) /* Linux has none above 2^22 */

enum shard_log_space { SHARD_LOG_NONE, SHARD_LOG_RESERVING, SHARD_LOG_READY, SHARD_LOG_FAILED };

struct shard_log_head {
  uint64_t magic;
  uint64_t nonce;              /* of this file; its name may be used again */
  int64_t pid;                 /* of the main process, */
  uint64_t namespace_ino;      /* in this PID namespace */
  _Atomic uint64_t notes;      /* places claimed; what stays zero is lost, too */
  _Atomic uint64_t lost;       /* what could not be noted, and has no place */
  _Atomic uint64_t generation; /* of what is known about the datasets */
  _Atomic uint32_t datasets;   /* slots claimed */
  _Atomic uint32_t
      superseded;         /* the main process was a wrapper of other ranks: it writes nothing */
  _Atomic uint32_t ended; /* 2: and the statistics tell that something was noted later */
  _Atomic uint32_t view;  /* enum shard_view */
  int32_t rank, size;
  /* As the main process has them, until a process lists a dataset: then as that one has them. */
  _Atomic uint32_t settled; /* enum shard_log_space */
  uint32_t strategy;        /* enum shard_strategy */
  uint32_t shuffled;
  uint32_t remainder; /* enum shard_remainder */
  uint32_t sample;    /* enum shard_sample */
  uint64_t seed;
  uint64_t job; /* a hash of its identity (cache/job.h); 0: it is not known */
  char launcher[32], host[72];
  char target[PATH_MAX];
  _Atomic uint8_t space[SHARD_LOG_SEGMENTS]; /* enum shard_log_space */
  int64_t begun;           /* when the main process made the log: milliseconds since 1970, */
  int64_t clock;           /* and of the node's monotonic clock */
  _Atomic uint64_t timed;  /* the latest time that was noted; times are milliseconds since then */
  _Atomic uint64_t lasted; /* when the main process ended, and 1; 0: it has not */
  _Atomic uint64_t peak;   /* bytes of its largest process: the main one, or one it waited for */
  /* The main process, and others beside it that keep the log, too: a pid, and above its 22 bits
   * when it started, in ticks since boot; 0: none. The last one that lives makes the statistics. */
  _Atomic int64_t keepers[SHARD_LOG_KEEPERS];
  _Atomic uint64_t untimed; /* places of times that could not be noted: no open is missing there */
};
static_assert(sizeof(struct shard_log_head) <= SHARD_LOG_HEAD, "the head fits");

struct shard_log_dataset {
  _Atomic uint32_t state;    /* enum shard_log_space */
  uint32_t program;          /* 1: a program that shards by itself lists it; 0: of SHARD_DATASET */
  uint64_t id;               /* XXH64 of root */
  _Atomic uint64_t dev, ino; /* of root; dev: shard_climb_device() */
  _Atomic uint64_t entries;  /* in the listing, without those of datasets inside; valid if listed */
  _Atomic uint64_t used;     /* the first so many of them are used; ditto */
  _Atomic uint32_t listed;   /* enum shard_log_space: listing, digest, entries, used */
  _Atomic uint32_t mixed;    /* another process used another listing, or other settings */
  _Atomic uint32_t lists;    /* enum shard_log_lists */
  uint64_t first;            /* epoch */
  _Atomic uint64_t epoch;    /* now */
  _Atomic uint64_t last;     /* the latest that began */
  struct shard_options options; /* which names are of the dataset */
  char digest[65];
  char root[PATH_MAX]; /* canonical */
  char listing[PATH_MAX];
  _Atomic uint64_t at_hand; /* when its first listing was, and 1; 0: it has not been */
};
#define SHARD_LOG_SLOT 12288
static_assert(sizeof(struct shard_log_dataset) <= SHARD_LOG_SLOT, "a dataset fits");
static_assert(SHARD_LOG_HEAD + SHARD_LOG_DATASETS * SHARD_LOG_SLOT <= SHARD_LOG_SEGMENT,
              "datasets lie before the notes");

enum shard_log_kind {
  SHARD_LOG_OPENED = 1, /* a file was opened */
  SHARD_LOG_SERVED = 2, /* a name was shown to the rank, under hash */
  SHARD_LOG_PASSED = 3, /* a process began to read names */
  SHARD_LOG_LIST = 4,
  SHARD_LOG_TEXT = 5,
  SHARD_LOG_TIME = 6 /* its hash is the time at which the notes that follow were made */
};
#define SHARD_LOG_MARK 0x5348
#define SHARD_LOG_EPOCHS (1U << 20) /* from the first on */

/* Which listings ranks use. */
enum shard_log_lists {
  SHARD_LOG_ONE,     /* one, of which each has a share: struct shard_log_dataset has it */
  SHARD_LOG_RANKS,   /* each has its own (SHARD_LISTING with %r), and all of it */
  SHARD_LOG_BY_EPOCH /* one for each epoch (%e), of which each has a share */
};

/*
 * A list that was used in an epoch, if they are RANKS or BY_EPOCH: a note SHARD_LOG_LIST, whose
 * hash is the number of notes that follow it; those are SHARD_LOG_TEXT, and their hashes are 8
 * bytes of this each.
 */
struct shard_log_list {
  uint64_t entries;
  char digest[64];
  char listing[PATH_MAX]; /* as much of it as there is */
};

/* One note, stored in two parts, the second of which is never zero. */
struct shard_log_note {
  _Atomic uint64_t hash; /* XXH64, seed 0, of the name relative to the root */
  _Atomic uint64_t what; /* epoch - first, dataset, kind, SHARD_LOG_MARK: 32, 8, 8, 16 bits */
};
static_assert(sizeof(struct shard_log_note) == 16, "a note is 16 bytes");

static inline uint64_t shard_log_what(uint64_t epoch, unsigned dataset, enum shard_log_kind kind) {
  return epoch << 32 | (uint64_t)dataset << 24 | (uint64_t)kind << 16 | SHARD_LOG_MARK;
}
