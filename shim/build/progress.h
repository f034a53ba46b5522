/* SPDX-License-Identifier: MIT */
/*
 * progress.h - shows on a terminal how far a long task has come (shardctl only).
 *
 * The progress is one line on stderr, which is written anew several times a second and is erased at
 * the end. Nothing is written in the first second, nor where stderr is no terminal, nor by a job in
 * the background. One task runs at a time; any of its threads may count.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SHARD_PROGRESS_STEP 256 /* names that a thread counts by itself */

/*
 * Allows or forbids that progress is shown; at first progress is forbidden. Where stderr is no
 * terminal, or TERM is unset or "dumb", progress stays forbidden.
 */
void shard_progress_allow(bool allowed);

/*
 * Begins a task, and ends the task before.
 * what: the task, as "reading"; must live until the task ends.
 * total: names to come; 0 if that is not known.
 */
void shard_progress_begin(const char *what, uint64_t total);

/* Adds `more` names to the count, and shows the line when that is due. */
void shard_progress_add(uint64_t more);

/*
 * Counts one name.
 * own: the calling thread's counter. The thread's last names, fewer than SHARD_PROGRESS_STEP, are
 * not added to the count.
 */
static inline void shard_progress_count(uint64_t *own) {
  if (++*own % SHARD_PROGRESS_STEP == 0) {
    shard_progress_add(SHARD_PROGRESS_STEP);
  }
}

/*
 * Prints a line on stderr: `mark`, the text and a newline. Control characters of the text are
 * printed as \xHH. The progress is erased first, and shown again when the progress is next due.
 * Returns rc.
 */
__attribute__((format(printf, 3, 4))) int shard_progress_say(int rc, const char *mark,
                                                             const char *format, ...);

/* Ends the task, whether it has succeeded or failed, and erases the line. */
void shard_progress_end(void);
