/* SPDX-License-Identifier: MIT */
/*
 * builder.h - the protocol between libshard.so and the shardctl that it starts, and the one place
 * that starts it.
 *
 * A process of the host that needs a listing starts shardctl, found beside the library and run by
 * the descriptor that was judged (self.h):
 *
 *   descriptors   0 and 1: /dev/null. 2: a pipe that the library reads. 3: the flock under which it
 *                 works. The library unlocks it; if the host is dead, shardctl does so at its end.
 *                 To close it would not do, as a child that the host has forked has the
 *                 descriptors, too: so nobody waits for the pipe's end either. 4: the program
 *                 itself. It closes all others, before anything else (ctl/descriptors.h).
 *   signals       all as they are by default, none blocked; a process group of its own. It asks the
 *                 kernel for SIGTERM at the end of the thread that started it, for nobody would
 *                 take what it makes
 *   environment   the host's, without LD_PRELOAD, and without SHARD_ variables that are empty or
 *                 not ours; and variables for it alone, such as keys
 *   arguments     first SHARD_BUILDER_MARK and the pid of who started it; then
 *                 index SOURCE -o FILE --options TEXT --quiet [--root DIR]
 *                                        make a listing
 *                 index TEXT -o FILE --keep-order -0 --quiet
 *                                        make one of a text in the cache
 *                 get URL -o FILE        fetch an object
 *   exit status   0: FILE is there, whole. 1: it failed; the last line of its words says why.
 *                 2: it was called wrongly
 *   words         lines for people on descriptor 2
 *
 * Thread-safe: all state is the caller's. A host may reap all its children, or ignore SIGCHLD: then
 * nobody learns the exit status, and the file must tell.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SHARD_BUILDER_LOCK 3
#define SHARD_BUILDER_MARK "--builder="
#define SHARD_BUILDER_NO_SPACE "No space left" /* in its words, if FILE's disk is full */

struct shard_builder {
  char program[PATH_MAX];
  pid_t pid;
  int errors;      /* the pipe */
  char words[600]; /* its last ones, in whole lines as far as they fit */
  int signal;      /* that has ended it */
  /* Set by the caller: without the host's LD_LIBRARY_PATH and LD_PRELOAD; it asks a server, and so
   * has the host's LD_PRELOAD, but libshard.so, unless `own`. */
  bool own, remote;
};

/* What has become of it. */
enum shard_builder_end {
  SHARD_BUILDER_DONE,   /* exit status 0, or nobody knows it */
  SHARD_BUILDER_FAILED, /* another exit status */
  SHARD_BUILDER_KILLED, /* by signal b->signal */
  SHARD_BUILDER_LATE    /* the deadline came first; it is dead */
};

/*
 * Variable `name` of length bytes in a list of "NAME=value" or "NAME" (the builder shall not have
 * it) that ends with NULL. NULL if it is not there.
 */
const char *shard_builder_find_variable(const char *const *list, const char *name, size_t length);

/*
 * Start it. arguments: NULL-ended, without the program's name. environment: as above, over the
 * host's own; NULL: none. 0, or a negative errno and a line in err[size].
 */
int shard_builder_start(struct shard_builder *b, const char *const *arguments,
                        const char *const *environment, int lock, char *err, size_t size);

/* Wait for its end, until `deadline` (ms of the monotonic clock). */
enum shard_builder_end shard_builder_wait(struct shard_builder *b, int64_t deadline);

/* Whether it did not begin, because the loader found libraries that it cannot use. */
bool shard_builder_lacks_libraries(const struct shard_builder *b);

/* The last line of its words. */
const char *shard_builder_last_line(const struct shard_builder *b);
