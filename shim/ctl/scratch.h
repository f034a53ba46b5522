/* SPDX-License-Identifier: MIT */
/* scratch.h - a temporary folder for files that are to be put into a bucket. */
#ifndef SHARD_CTL_SCRATCH_H
#define SHARD_CTL_SCRATCH_H

struct ctl_scratch {
  char *path; /* NULL: there is none */
  int lock;
};

/* A new one (SHARD_TMPDIR, TMPDIR, /tmp). CTL_DONE, or CTL_FAILED after a message. */
int ctl_scratch_make(struct ctl_scratch *scratch);

/* It goes with all that is in it. */
void ctl_scratch_remove(struct ctl_scratch *scratch);

#endif
