/* SPDX-License-Identifier: MIT */
/*
 * scratch.h - temporary folders: for listings and manifests that are put into a bucket or printed,
 * and for what doctor tries.
 *
 * Names that do not fit into SHARD_BUILD_MEMORY go to TMPDIR, too; but without TMPDIR beside the
 * listing (build/build.h), which may be larger than /tmp.
 */
#pragma once

struct ctl_scratch {
  char *path; /* NULL: there is none */
  int lock;
};

/* Returns the folder in which temporary folders are made: $TMPDIR, or /tmp. */
const char *ctl_scratch_parent(void);

/* Make a folder for this user alone. Returns CTL_DONE, or CTL_FAILED after a message. */
int ctl_scratch_make(struct ctl_scratch *scratch);

/* Remove the folder, if there is one, with all files in it. */
void ctl_scratch_remove(struct ctl_scratch *scratch);
