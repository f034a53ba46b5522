/* SPDX-License-Identifier: MIT */
/*
 * log.h - defines the format of a process's log for SHARD_STATS, DIR/HOST.PID.START[-N].log, and
 * writes the log of this process.
 *
 *   0         struct shard_log_head
 *   4 KiB     an array of struct shard_log_note, to the end of the file
 *
 * A process makes its log at its first note. A forked child makes a log of its own. A vforked child
 * shares the memory of its parent, and so the log. The file has its final name from its creation,
 * and its head before the first note. Space is written before the space is mapped, so a note is a
 * store into a shared mapping: nothing is locked, no descriptor is kept, and a note stays in the
 * file however the process ends. A place whose bytes are zero has no note. The machines that write
 * and read a log have the same byte order.
 *
 * shardctl needs only this header to read logs. Only the call that makes the log allocates memory,
 * to find the process's rank and start time.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_LOG_MAGIC 0x32676f6c64726873ULL /* "shrdlog2" */
#define SHARD_LOG_HEAD 4096U
#define SHARD_LOG_SEGMENT 65536U /* bytes that are written and mapped at a time */
#define SHARD_LOG_SEGMENTS 16384 /* most segments of a log: 67 million notes */
#define SHARD_LOG_DATASETS 32
#define SHARD_LOG_EPOCHS (UINT64_C(1) << 32) /* an open in a later epoch is lost */

/* The head of a log: facts about the process. */
struct shard_log_head {
  uint64_t magic;
  int64_t pid;                /* in the process's PID namespace */
  uint64_t start, namespace;  /* start in clock ticks from boot; inode of the PID namespace */
  int64_t begun;              /* when the log was made, in milliseconds since 1970 */
  _Atomic int64_t ended;      /* in the same unit; 0: not ended by exit(3) or _exit(2) */
  _Atomic uint64_t notes;     /* places taken; a place that stays zero counts as lost, too */
  _Atomic uint64_t shares;    /* 1 + the place of the latest share; 0: no share */
  _Atomic uint64_t lost;      /* opens that could not be noted: no space, no descriptor, the cap */
  _Atomic uint64_t job;       /* shard_job_number() of the job (cache/job.h); 0: not known */
  _Atomic int32_t rank, size; /* -1: not known yet */
  char host[72], launcher[32], version[32];
  char name[160]; /* of the file */
};
static_assert(sizeof(struct shard_log_head) <= SHARD_LOG_HEAD, "the head fits");

/* The kind of a note. */
enum shard_log_kind {
  SHARD_LOG_OPENED = 1, /* a file was opened */
  SHARD_LOG_SERVED = 2, /* a name was shown to the rank as its own (SHARD_STRATEGY=hash) */
  SHARD_LOG_SHARE = 3,  /* `hash` is the number of TEXT notes that follow: a shard_log_share */
  SHARD_LOG_TEXT = 4    /* `hash` is 8 bytes of the struct shard_log_share */
};
#define SHARD_LOG_MARK 0x5348 /* the lowest 16 bits of `what` of each note */

/* A note. `hash` is the XXH64, seed 0, of a file's path: the canonical root, which ends with a
 * slash, and the name. */
struct shard_log_note {
  _Atomic uint64_t hash; /* for SHARE and TEXT: see enum shard_log_kind */
  _Atomic uint64_t what; /* epoch, dataset, kind, SHARD_LOG_MARK: 32, 8, 8, 16 bits; stored last */
};
static_assert(sizeof(struct shard_log_note) == 16, "a note is 16 bytes");

/* Returns the `what` of a note. epoch: below SHARD_LOG_EPOCHS. dataset: the number of a dataset. */
static inline uint64_t shard_log_what(uint64_t epoch, unsigned dataset, enum shard_log_kind kind) {
  return epoch << 32 | (uint64_t)dataset << 24 | (uint64_t)kind << 16 | SHARD_LOG_MARK;
}

/* Which names of a dataset a process gets. */
enum shard_log_how {
  SHARD_LOG_UNLISTED, /* no names: the process has only opened files */
  SHARD_LOG_ALL,      /* all names of the real directory: a world of one */
  SHARD_LOG_ONE,      /* the rank's share of the job's listing */
  SHARD_LOG_BY_EPOCH, /* the rank's share of the epoch's own list (SHARD_LISTING with %e) */
  SHARD_LOG_RANKS,    /* all names of the rank's own list (SHARD_LISTING with %r) */
  SHARD_LOG_HASHED,   /* the names that are noted as SERVED */
  SHARD_LOG_PROGRAM   /* the program itself divides the first `used` names of the listing */
};

/* The share of a process in a dataset. A share is noted once for a dataset, and again when the
 * share changes, as in a new epoch. */
struct shard_log_share {
  uint32_t how, strategy, rank, size; /* enum shard_log_how, enum shard_strategy */
  uint32_t shuffled, root_length;
  uint32_t remainder, sample;   /* enum shard_remainder, enum shard_sample */
  uint64_t previous;            /* 1 + the place of the share before, as `shares` of the head */
  uint64_t seed, entries, used; /* entries of the listing; entries that are used */
  uint64_t needed;              /* entries that the program's steps account for */
  char digest[64];              /* of the listing; zeros: no listing */
  char texts[]; /* the root, of root_length bytes, then the listing's path and a NUL */
};

#define SHARD_LOG_SHARE_MOST 8400 /* bytes of a share with both paths, at most */

/*
 * Sets the folder of the logs.
 * directory: a text that must outlive the process's last note.
 * Returns false if the kernel is too old (before Linux 4.14), or there is no memory.
 */
bool shard_log_init(const char *directory);

/*
 * Returns a number for this process's log, to tell it from the log of a parent or child; 0: the
 * process has no log yet.
 */
uint64_t shard_log_number(void);

/* Adds a note. If no place can be had, the note counts as lost. what: of shard_log_what(). */
void shard_log_note(uint64_t hash, uint64_t what);

/* Counts a note as lost. */
void shard_log_lose(void);

/*
 * Adds a share, and sets share->previous.
 * size: bytes of the share with both texts.
 * what: of shard_log_what(), with kind SHARD_LOG_SHARE.
 */
void shard_log_share(struct shard_log_share *share, size_t size, uint64_t what);

/* Sets the rank and size in the head, which may not have been known when the log was made. */
void shard_log_set_rank(uint32_t rank, uint32_t size);

/* Sets the job in the head. job: of shard_job_number(). */
void shard_log_set_job(uint64_t job);

/*
 * Notes in the head that the process is about to end. If notes were lost before there was a log,
 * makes the log. Notes nothing in a vforked child, whose log is the parent's.
 */
void shard_log_end(void);
