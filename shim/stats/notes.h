/* SPDX-License-Identifier: MIT */
/*
 * notes.h - the log of the rank (log.h), as this process has it mapped: its datasets, and notes.
 *
 * No locks and no allocations, and no wrapper or cancellation point is called: all of it may be
 * done in a signal handler, and between (v)fork and exec. errno may change.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stats/log.h"

/* The log's first segment; NULL: there is none. */
extern struct shard_log_head *shard_notes_head __attribute__((visibility("hidden")));
extern char shard_notes_file[PATH_MAX + 16] __attribute__((visibility("hidden"))); /* its name */

/* ---- the log */

/* Map the first segment of the log that is open as fd. NULL: errno tells why not. Who uses it sets
 * shard_notes_head, once it is filled in, and for good: other threads may add notes meanwhile. */
struct shard_log_head *shard_notes_map(int fd);
void shard_notes_unmap(struct shard_log_head *log);

/*
 * Where there is none: one in memory, where whatever this process adds is lost. nonce: of the log
 * that has ended, whose statistics tell it. 0: there is no rank yet, and a forked child has an
 * empty one. false: there is no memory.
 */
bool shard_notes_begin_in_memory(uint64_t nonce);
/* How much it was while there was no rank. */
uint64_t shard_notes_count_early(void);

/* Open it, if its name still leads to it; else -1. */
int shard_notes_reopen(void);

/*
 * Open what processes share: a regular file of this user's or root's, to which nobody else may
 * write, and which begins with `magic` and a nonce. flags: O_NOFOLLOW, or 0. The descriptor; -1:
 * errno tells why not, EPERM or ELOOP that it is not to be believed, EBADMSG that it is no such.
 */
int shard_notes_open(const char *path, int flags, uint64_t magic, uint64_t *nonce);

/* Space of a file for a segment, so that storing into its mapping cannot fail. 0 or an errno. */
int shard_notes_reserve(int fd, off_t at);

/* ---- notes */

/* What a note tells of an epoch; 0, and one more is lost, if it lies too far from the first. */
uint64_t shard_notes_what(int dataset, uint64_t epoch, enum shard_log_kind kind);

/* The time now, in the log's milliseconds. */
uint64_t shard_notes_now(void);

/*
 * Note the time, before a note of this dataset, if since the last such note 1/256 of the log's age
 * has passed: a day takes some 3,000 notes, which is exact enough for a picture.
 */
void shard_notes_time(int dataset);

/* Add a note. A lack of space, or of a descriptor to map it, is one more lost. */
void shard_notes_add(uint64_t hash, uint64_t what);
/* What was opened, or may have been, cannot be noted. */
void shard_notes_lose(void);
/* The same at a place that the caller has claimed from shard_notes_head->notes. */
void shard_notes_add_at(uint64_t at, uint64_t hash, uint64_t what);

/* ---- datasets */

static inline struct shard_log_dataset *shard_notes_dataset(uint32_t i) {
  return (struct shard_log_dataset *)((char *)shard_notes_head + SHARD_LOG_HEAD +
                                      (size_t)i * SHARD_LOG_SLOT);
}

/* How many there are, and whether one has been filled in. */
static inline uint32_t shard_notes_datasets(void) {
  uint32_t n = atomic_load(&shard_notes_head->datasets);
  return n < SHARD_LOG_DATASETS ? n : SHARD_LOG_DATASETS;
}
static inline bool shard_notes_is_ready(uint32_t i) {
  return atomic_load(&shard_notes_dataset(i)->state) == SHARD_LOG_READY;
}

/* Canonical path of an open file into buf[PATH_MAX]; its length, 0 if it has none. */
size_t shard_notes_path(int fd, char *buf);
