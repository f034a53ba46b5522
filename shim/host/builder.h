/* SPDX-License-Identifier: MIT */
/*
 * builder.h - starts shardctl from libshard.so; the only place that does, and the protocol of the
 * two.
 *
 * A process of the host that needs a listing starts shardctl, which lies beside the library, by the
 * descriptor that was checked (library.h). shardctl gets:
 *
 *   descriptors   0 and 1: /dev/null. 2: a pipe that the library reads. 3: the flock under which
 *                 shardctl works. The library unlocks it; if the host is dead, shardctl unlocks it
 *                 at its end. Closing would not unlock it: a child that the host has forked has the
 *                 descriptors, too. For the same reason nobody waits for the pipe's end. 4: the
 *                 program itself. shardctl closes all others before anything else (ctl/main.c).
 *   signals       default actions, none blocked; its own process group. shardctl asks the kernel
 *                 for SIGTERM at the end of the thread that started it: nobody would use its
 *                 result.
 *   environment   the host's, without LD_PRELOAD, and without SHARD_ variables that are empty or
 *                 that libshard does not have; and variables that only shardctl may see, such as
 *                 keys.
 *   arguments     SHARD_BUILDER_FLAG and the pid of the host's process; then
 *                 index SOURCE -o FILE --options TEXT --quiet [--root DIR]
 *                                        make a listing
 *                 index TEXT -o FILE --keep-order -0 --quiet
 *                                        make a listing of a text in the cache
 *                 get URL -o FILE        fetch an object
 *   exit status   0: FILE is complete. 1: failure; the last line of the messages says why.
 *                 2: wrong arguments.
 *   messages      lines for people on descriptor 2
 *
 * All state is the caller's. A host may reap all its children, or ignore SIGCHLD: then the exit
 * status is lost, and the caller looks at FILE.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SHARD_BUILDER_LOCK 3
#define SHARD_BUILDER_FLAG "--builder="
#define SHARD_BUILDER_NO_SPACE "No space left" /* in the messages if FILE's disk is full */

struct shard_builder {
  char program[PATH_MAX];
  pid_t pid;
  int errors;         /* the pipe */
  char messages[600]; /* the last ones, in whole lines as far as they fit */
  int signal;         /* the signal that has ended shardctl */
  /* Set by the caller: shardctl asks a server, and gets the host's LD_PRELOAD without libshard.so.
   */
  bool remote;
};

/* How shardctl has ended. */
enum shard_builder_end {
  SHARD_BUILDER_DONE,   /* exit status 0, or the status is lost */
  SHARD_BUILDER_FAILED, /* another exit status */
  SHARD_BUILDER_KILLED, /* by signal b->signal */
  SHARD_BUILDER_LATE    /* the deadline passed, and shardctl was killed */
};

/*
 * Finds a variable in a list of "NAME=value", or "NAME" for a variable that shardctl must not get.
 * list: ends with NULL.
 * length: bytes of `name`.
 * Returns the entry; NULL if the list has none.
 */
const char *shard_builder_find_variable(const char *const *list, const char *name, size_t length);

/*
 * Starts shardctl.
 * arguments: end with NULL, without the program's name.
 * environment: such a list, which overrides the host's variables; NULL: none.
 * lock: the descriptor of the flock.
 * Errors: a negative errno and a line.
 */
int shard_builder_start(struct shard_builder *b, const char *const *arguments,
                        const char *const *environment, int lock, char *err, size_t size);

/*
 * Waits until shardctl has ended, and kills it at the deadline.
 * deadline: ms of the monotonic clock.
 */
enum shard_builder_end shard_builder_wait(struct shard_builder *b, int64_t deadline);

/* Returns the last line of the messages. */
const char *shard_builder_last_line(const struct shard_builder *b);
