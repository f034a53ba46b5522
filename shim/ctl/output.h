/* SPDX-License-Identifier: MIT */
/*
 * output.h - a file that appears whole or not at all: written under a name beside it, which
 * shardctl index removes when nobody has it locked any more.
 */
#ifndef SHARD_CTL_OUTPUT_H
#define SHARD_CTL_OUTPUT_H

#include <limits.h>
#include <stdbool.h>

struct ctl_output {
  int fd; /* to be written to */
  char temporary[PATH_MAX];
  const char *file; /* the caller's, who keeps it */
};

/* CTL_DONE, or CTL_FAILED after a message: then there is nothing to end. */
int ctl_output_open(const char *file, struct ctl_output *o);

/* Put it in its place, or remove it. CTL_DONE, or CTL_FAILED after a message and without it. */
int ctl_output_end(struct ctl_output *o, bool keep);

#endif
