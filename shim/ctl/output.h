/* SPDX-License-Identifier: MIT */
/*
 * output.h - a command's output file, which appears whole or not at all (base/whole.h), with
 * messages. Each function returns CTL_DONE, or CTL_FAILED after a message.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/whole.h"

struct ctl_output {
  struct shard_whole whole; /* whole.fd is to be written to */
  char temporary[PATH_MAX]; /* its path meanwhile */
  const char *variable;     /* that names the file, for messages; NULL: none does */
};

/*
 * Begin to write `file`, which the caller keeps. It has the mode that the umask leaves. variable:
 * the one that names the file, for messages, or NULL. After CTL_FAILED there is nothing to end.
 */
int ctl_output_open(const char *file, const char *variable, enum shard_whole_sync sync,
                    struct ctl_output *o);

/* Write what `print` prints. After CTL_FAILED the file is to be ended with keep false. */
int ctl_output_print(struct ctl_output *o, int (*print)(void *context, FILE *out), void *context);

/* Put it in its place, or remove it. After CTL_FAILED it is removed. */
int ctl_output_end(struct ctl_output *o, bool keep);
