/* SPDX-License-Identifier: MIT */
/*
 * output.h - a command's output file, which appears whole or not at all (base/atomic_file.h). Each
 * function returns CTL_DONE, or CTL_FAILED after a message.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/atomic_file.h"

struct ctl_output {
  struct shard_atomic_file whole; /* whole.fd is to be written to */
  char temporary[PATH_MAX];       /* the file's path meanwhile */
};

/*
 * Begin to write `file`, a path that the caller keeps; its mode is what the umask leaves. After
 * CTL_FAILED there is nothing to end.
 */
int ctl_output_open(const char *file, enum shard_atomic_file_sync sync, struct ctl_output *o);

/* Write what `print` prints. After CTL_FAILED the caller ends the file with keep false. */
int ctl_output_print(struct ctl_output *o, int (*print)(void *context, FILE *out), void *context);

/* Put the file in its place, or remove it. After CTL_FAILED it is removed. */
int ctl_output_end(struct ctl_output *o, bool keep);
