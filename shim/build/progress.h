/* SPDX-License-Identifier: MIT */
/*
 * progress.h - tells on a terminal how far something is that takes long (shardctl only).
 *
 * It is one line on stderr, written anew again and again, and gone at the end: nothing is written
 * in the first second, and nothing at all where stderr is no terminal. One thing goes on at a time;
 * its threads may count.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SHARD_PROGRESS_STEP 256 /* a thread counts by itself up to this */

/* Whether it may be told: no, until this is called. Yes only if stderr is a terminal. */
void shard_progress_allow(bool allowed);

/* Something begins, as "reading", with so many names to come; 0: that is not known. */
void shard_progress_begin(const char *what, uint64_t total);

/* So many names more. */
void shard_progress_add(uint64_t more);

/* One name more of the calling thread, whose counter this is. */
static inline void shard_progress_count(uint64_t *own) {
  if (++*own % SHARD_PROGRESS_STEP == 0) {
    shard_progress_add(SHARD_PROGRESS_STEP);
  }
}

/*
 * Say something else on stderr: a mark, the text and a newline, control characters as \xHH, so that
 * it stays one line. The line of progress comes again. Returns rc.
 */
__attribute__((format(printf, 3, 4))) int shard_progress_say(int rc, const char *mark,
                                                             const char *format, ...);

/* It has ended, well or not. */
void shard_progress_end(void);
