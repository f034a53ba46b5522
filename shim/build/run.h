/* SPDX-License-Identifier: MIT */
/*
 * run.h - runs, which are sorted sequences of coded names in memory or in a temporary file; and the
 * merge of runs (shardctl only).
 *
 * The record of a name:
 *   varint prefix   bytes shared with the start of the name before
 *   varint suffix   bytes shared with the end of the name before
 *   varint middle   bytes between prefix and suffix
 *   the middle
 *   if attributes are kept: varint zigzag(inode less the inode before), u8 type
 *
 * Records of numbered names take some seven bytes each, so their runs rarely need a disk. Nothing
 * is allocated.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libshard.h"

/* Bytes of a segment with its header. A record lies in one segment. */
#define SHARD_SEGMENT ((size_t)64 << 10)
/* Bytes of a record without the middle, at most. */
#define SHARD_RECORD_MORE ((size_t)32)

struct shard_segment {
  struct shard_segment *next;
  uint32_t used;
  uint8_t data[];
};

struct shard_run {
  uint64_t seq; /* of equal names, the name of the run with the lower seq comes first */
  struct shard_segment *segments; /* the records in memory; NULL: the run is on disk */
  off_t begin, end;               /* where the run lies in the temporary file */
  uint64_t bytes;                 /* of all records */
  uint32_t longest;               /* bytes of the longest name */
  bool busy;                      /* a thread is writing the run to disk */
};

/*
 * Codes names into a run.
 * spare: segments for the run, at least as many as shard_run_segments() returns.
 */
struct shard_run_coder {
  struct shard_run *run;
  struct shard_segment *tail, *spare;
  uint64_t ino;
  bool attributes;
};

/*
 * Returns how many segments a run may take.
 * bytes, count: of all names.
 * longest: bytes of the longest name.
 */
size_t shard_run_segments(size_t bytes, size_t count, size_t longest);

/*
 * Appends a name to a run.
 * before[before_length]: the name before; NULL if there is none.
 * name: eight bytes past its end must be readable.
 */
void shard_run_put(struct shard_run_coder *c, const char *before, size_t before_length,
                   const char *name, size_t length, uint64_t ino, uint8_t type);

/*
 * Writes the segments of a run to fd at offset `at`.
 * Errors: of pwritev(2).
 */
int shard_run_save(const struct shard_run *run, int fd, off_t at);

/* Takes a name, which lives until the function returns. A result other than 0 ends the merge. */
typedef int shard_run_emit(void *context, const char *name, size_t length, uint64_t ino,
                           uint8_t type);

/* A merge of runs. */
struct shard_run_merge {
  uint32_t order;
  bool attributes;
  size_t common; /* bytes that all names share at the start of the part that the order compares
                    first */
  int fd;        /* the temporary file */
  char *region;  /* all memory that a merge needs, aligned to 64. Eight bytes past its end, and past
                    the end of every segment, must be readable */
  size_t size;
  bool unreadable; /* set if a run could not be read back */
};

/* Returns how many of the runs, from the first on, the region has room to merge at once. */
size_t shard_run_fit(const struct shard_run_merge *m, const struct shard_run *runs, size_t count);

/*
 * Gives the names of all runs to `emit`, in order; equal names in the order of their runs.
 * Errors: the result of `emit`; or, with m->unreadable set, of pread(2), or -EBADMSG, the temporary
 * file came back damaged.
 */
int shard_run_merge(struct shard_run_merge *m, const struct shard_run *runs, size_t count,
                    shard_run_emit *emit, void *context);
