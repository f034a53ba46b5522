/* SPDX-License-Identifier: MIT */
/*
 * log.h - the log of one process for SHARD_STATS, DIR/HOST.PID.START[-N].log: its format, and how
 * this process writes its own.
 *
 *   0         struct shard_log_head
 *   4 KiB     struct shard_log_note [], as many as there is space for
 *
 * A process makes its log at its first note. A forked child makes its own; a vforked one shares the
 * memory of its parent, and the log. The file has its final name and its head from the beginning.
 * Space is written before it is mapped, so a note is a store into a shared mapping: nothing is
 * locked, no descriptor is kept, and a note stays, whatever kills the process. A note of zero bytes
 * is a place without a note. Machines that write and read a log have one byte order.
 *
 * shardctl reads logs by this header alone. The functions allocate nothing, except that the first
 * note of a process looks for its rank; errno may change.
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
#define SHARD_LOG_SEGMENTS 16384 /* at most: 67 million notes */
#define SHARD_LOG_DATASETS 32
#define SHARD_LOG_EPOCHS (UINT64_C(1) << 32) /* an open in a later epoch is lost */

struct shard_log_head {
  uint64_t magic;
  int64_t pid;                /* in this PID namespace */
  uint64_t start, namespace;  /* clock ticks from boot; inode */
  int64_t begun;              /* milliseconds since 1970 */
  _Atomic int64_t ended;      /* the same; 0: the process did not end by exit(3) or _exit(2) */
  _Atomic uint64_t notes;     /* places taken; a place that stays zero is lost, too */
  _Atomic uint64_t shares;    /* the place of the latest share, and 1; 0: there is none */
  _Atomic uint64_t lost;      /* opens that could not be noted: no space, no descriptor, the cap */
  _Atomic uint64_t job;       /* a hash of its identity (cache/job.h); 0: not known */
  _Atomic int32_t rank, size; /* -1: not known, as yet */
  char host[72], launcher[32], version[32];
  char name[160]; /* of the file */
};
static_assert(sizeof(struct shard_log_head) <= SHARD_LOG_HEAD, "the head fits");

enum shard_log_kind {
  SHARD_LOG_OPENED = 1, /* a file was opened */
  SHARD_LOG_SERVED = 2, /* a name was shown to the rank as its own (SHARD_STRATEGY=hash) */
  SHARD_LOG_SHARE = 3,  /* `hash` notes of TEXT follow: a struct shard_log_share */
  SHARD_LOG_TEXT = 4    /* 8 bytes of it */
};
#define SHARD_LOG_MARK 0x5348

struct shard_log_note {
  _Atomic uint64_t
      hash; /* XXH64, seed 0, of the canonical root, a slash if it has none, the name */
  _Atomic uint64_t what; /* epoch, dataset, kind, SHARD_LOG_MARK: 32, 8, 8, 16 bits; stored last */
};
static_assert(sizeof(struct shard_log_note) == 16, "a note is 16 bytes");

static inline uint64_t shard_log_what(uint64_t epoch, unsigned dataset, enum shard_log_kind kind) {
  return epoch << 32 | (uint64_t)dataset << 24 | (uint64_t)kind << 16 | SHARD_LOG_MARK;
}

/* How a process comes to the names of a dataset. */
enum shard_log_how {
  SHARD_LOG_UNLISTED, /* it only opens files */
  SHARD_LOG_ALL,      /* it sees the real directory: a world of one */
  SHARD_LOG_ONE,      /* the rank's share of the job's listing */
  SHARD_LOG_BY_EPOCH, /* the rank's share of the epoch's own list (SHARD_LISTING with %e) */
  SHARD_LOG_RANKS,    /* all of the rank's own list (%r) */
  SHARD_LOG_HASHED,   /* what is noted as SERVED */
  SHARD_LOG_PROGRAM   /* the program divides the first `used` names of the listing itself */
};

/* A share is noted once for a dataset, and again when the share changes, as in a new epoch. The
 * head has the place of the latest share, `previous` the place of the share before. */
struct shard_log_share {
  uint32_t how, strategy, rank, size; /* enum shard_log_how, enum shard_strategy */
  uint32_t shuffled, root_length;
  uint32_t remainder, sample; /* enum shard_remainder, enum shard_sample */
  uint64_t previous;
  uint64_t seed, entries, used; /* entries of the listing; how many of them are used, */
  uint64_t needed;              /* and how many the program's steps account for */
  char digest[64];              /* of the listing; zeros: there is none */
  char texts[]; /* the root, as long as root_length, and the listing's path, a NUL */
};

#define SHARD_LOG_SHARE_MOST 8400 /* bytes, with both paths */

/* Set the folder for logs; the caller keeps the text. Returns false if the kernel is too old. */
bool shard_log_init(const char *directory);

/* Returns the number of this process's log, which differs in a forked child; 0: no log yet. */
uint64_t shard_log_number(void);

/* Add a note. A note for which there is no place counts as lost. */
void shard_log_note(uint64_t hash, uint64_t what);

/* Count a note as lost. */
void shard_log_lose(void);

/* Add a share of `size` bytes, and set its `previous`. what: of kind SHARD_LOG_SHARE. */
void shard_log_share(struct shard_log_share *share, size_t size, uint64_t what);

/* Set the process's rank, which its variables may not have told before; and its job. */
void shard_log_set_rank(uint32_t rank, uint32_t size);
void shard_log_set_job(uint64_t job);

/* Note that the process is about to end. */
void shard_log_end(void);
