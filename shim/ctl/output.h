/* SPDX-License-Identifier: MIT */
/*
 * output.h - writes a command's output file, which appears complete or not at all
 * (base/atomic_file.h). Each function returns CTL_DONE, or CTL_FAILED after a message.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/atomic_file.h"

/* An output file that is being written. */
struct ctl_output {
  struct shard_atomic_file whole; /* the command writes to whole.fd */
  char temporary[PATH_MAX];       /* the path of the temporary file */
};

/*
 * Begins to write a file with mode 0666 less the umask. After CTL_FAILED there is nothing to end.
 * file: the path, which must live until ctl_output_end().
 */
int ctl_output_open(const char *file, enum shard_atomic_file_sync sync, struct ctl_output *o);

/*
 * Calls `print` with a stream to the file. After CTL_FAILED the caller calls ctl_output_end() with
 * keep false.
 * print: returns an exit status, which is returned.
 */
int ctl_output_print(struct ctl_output *o, int (*print)(void *context, FILE *out), void *context);

/*
 * Ends the writing: renames the temporary file to its final path, or removes the temporary file.
 * keep: false: remove. After CTL_FAILED the temporary file is removed, too.
 */
int ctl_output_end(struct ctl_output *o, bool keep);
