/* SPDX-License-Identifier: MIT */
/*
 * run.h - runs: sorted sequences of coded names, in memory or in a temporary file; and their merge
 * (shardctl only).
 *
 * The record of a name: varint prefix, the bytes shared with the start of the name before; varint
 * suffix, those shared with its end; varint middle, bytes; and if attributes are kept, varint
 * zigzag(inode less the inode before), u8 type. Numbered names take some seven bytes each, so their
 * runs rarely need a disk. Nothing is allocated; one thread uses a run at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libshard.h"

/* Bytes of a segment with its header. A record never lies in two segments. */
#define SHARD_SEGMENT ((size_t)64 << 10)
/* The most bytes of a record without those of its middle. */
#define SHARD_RECORD_MORE ((size_t)32)

struct shard_segment {
  struct shard_segment *next;
  uint32_t used;
  uint8_t data[];
};

struct shard_run {
  uint64_t seq;                   /* of equal names, those of the run with the lower seq go first */
  struct shard_segment *segments; /* in memory; NULL: on disk */
  off_t begin, end;               /* where it lies in the temporary file */
  uint64_t bytes;                 /* of all records */
  uint32_t longest;               /* bytes of its longest name */
  bool busy;                      /* a thread is writing it to disk */
};

/* Codes a run. It takes segments from `spare`, where shard_run_segments() of them must be. */
struct shard_run_coder {
  struct shard_run *run;
  struct shard_segment *tail, *spare;
  uint64_t ino;
  bool attributes;
};

/* How many segments a run may take, by the bytes of all names, their count, and the bytes of the
 * longest. */
size_t shard_run_segments(size_t bytes, size_t count, size_t longest);

/*
 * Append a name. Eight bytes behind its end must be readable. before[before_length]: the name
 * before; NULL if there is none.
 */
void shard_run_put(struct shard_run_coder *c, const char *before, size_t before_length,
                   const char *name, size_t length, uint64_t ino, uint8_t type);

/* Write a run's segments to fd at offset `at`. 0 or the negative errno of pwritev(2). */
int shard_run_save(const struct shard_run *run, int fd, off_t at);

/* Receives names in order; a name lives until it returns. A result other than 0 ends the merge. */
typedef int shard_run_emit(void *context, const char *name, size_t length, uint64_t ino,
                           uint8_t type);

struct shard_run_merge {
  uint32_t order;
  bool attributes;
  size_t common; /* bytes that all names share at the start of what the order compares first */
  int fd;        /* the temporary file */
  char *region;  /* all memory that a merge needs, aligned to 64. Eight bytes behind it, and behind
                    every segment, must be readable */
  size_t size;
  bool unreadable; /* set if a run could not be read back */
};

/* How many of the runs, from the first on, the region has room to merge at once. */
size_t shard_run_fit(const struct shard_run_merge *m, const struct shard_run *runs, size_t count);

/*
 * Give the names of all runs, in order, to `emit`; equal names in the order of their runs. 0; what
 * `emit` returned; or, with m->unreadable set, a negative errno of pread(2), -EBADMSG if the
 * temporary file came back damaged.
 */
int shard_run_merge(struct shard_run_merge *m, const struct shard_run *runs, size_t count,
                    shard_run_emit *emit, void *context);
