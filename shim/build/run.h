/* SPDX-License-Identifier: MIT */
/*
 * run.h - sorted sequences of names, coded, in memory or in a temporary file, and their merge
 * (shardctl only).
 *
 * A name: varint prefix, shared with the start of the name before; varint suffix, shared with its
 * end; varint middle, bytes; and if attributes are kept varint zigzag(inode less the one before),
 * u8 type. A run of numbered names takes some seven bytes a name so, and rarely needs a disk.
 */
#ifndef SHARD_BUILD_RUN_H
#define SHARD_BUILD_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libshard.h"

/* What a segment takes; its header included. A record never lies in two segments. */
#define SHARD_SEGMENT ((size_t)64 << 10)
/* Most bytes of a record besides those of its middle. */
#define SHARD_RECORD_MORE ((size_t)32)

struct shard_segment {
  struct shard_segment *next;
  uint32_t used;
  uint8_t data[];
};

struct shard_run {
  uint64_t seq;                   /* equal names: those of the lower seq come first */
  struct shard_segment *segments; /* in memory; NULL: on disk */
  off_t begin, end;               /* in the temporary file */
  uint64_t bytes;
  uint32_t longest; /* bytes of its longest name */
  bool busy;        /* being written to disk */
};

/* Codes a run. Segments are taken from `spare`, of which there must be enough. */
struct shard_run_coder {
  struct shard_run *run;
  struct shard_segment *tail, *spare;
  uint64_t ino;
  bool attributes;
};

/* Segments that a run of names takes: bytes of all names, how many, bytes of the longest. */
size_t shard_run_segments(size_t bytes, size_t count, size_t longest);

/*
 * Append a name; eight bytes after its end may be read. before[before_length]: the name before;
 * NULL if it is the first.
 */
void shard_run_put(struct shard_run_coder *c, const char *before, size_t before_length,
                   const char *name, size_t length, uint64_t ino, uint8_t type);

/* Write a run's segments to fd at `at`. 0 or negative errno. */
int shard_run_save(const struct shard_run *run, int fd, off_t at);

/* Receives names in order; a negative errno ends the merge. */
typedef int shard_run_emit(void *context, const char *name, size_t length, uint64_t ino,
                           uint8_t type);

struct shard_run_merge {
  uint32_t order;
  bool attributes;
  size_t common; /* bytes that all names share where the order looks first */
  int fd;        /* of runs on disk */
  char *region;  /* memory for everything a merge needs, aligned to 64; as segments are, it is
                    followed by eight bytes that can be read */
  size_t size;
  bool unreadable; /* set if a run could not be read back */
};

/* How many of the runs, from the first on, can be merged at once in the region. */
size_t shard_run_fit(const struct shard_run_merge *m, const struct shard_run *runs, size_t count);

/*
 * Give the names of all runs, in order, to `emit`; equal ones by their run's place in `runs`.
 * -EBADMSG: a temporary file came back damaged.
 */
int shard_run_merge(struct shard_run_merge *m, const struct shard_run *runs, size_t count,
                    shard_run_emit *emit, void *context);

#endif
