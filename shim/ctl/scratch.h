/* SPDX-License-Identifier: MIT */
/*
 * scratch.h - makes temporary folders: for listings and manifests that are put into a bucket or
 * printed, and for the tests of doctor.
 *
 * Names that do not fit into SHARD_BUILD_MEMORY are written to TMPDIR, too. If TMPDIR is not set,
 * such names are written to the folder of the listing (build/build.h), because /tmp may be small.
 */
#pragma once

/* A temporary folder. */
struct ctl_scratch {
  char *path; /* NULL: there is no folder */
  int lock;   /* a descriptor of the folder, with a lock; -1: none */
};

/* Returns the folder in which temporary folders are made: $TMPDIR, or /tmp. */
const char *ctl_scratch_parent(void);

/*
 * Makes a folder with mode 0700. Removes folders of killed shardctls of this user.
 * Returns CTL_DONE; CTL_FAILED after a message.
 */
int ctl_scratch_make(struct ctl_scratch *scratch);

/* Removes the folder, if there is one, and all files in the folder. */
void ctl_scratch_remove(struct ctl_scratch *scratch);
