/* SPDX-License-Identifier: MIT */
/*
 * scratch.h - temporary folders: the one place that says where, for files that are made to be put
 * into a bucket, to be printed, or to try libshard.
 *
 * What names take beyond SHARD_BUILD_MEMORY goes to TMPDIR, too; but without it beside the listing
 * (build/build.h), which may be larger than /tmp.
 */
#pragma once

struct ctl_scratch {
  char *path; /* NULL: there is none */
  int lock;
};

/* The folder that temporary folders are made in: TMPDIR, else /tmp. */
const char *ctl_scratch_parent(void);

/* Make one, for this user alone. CTL_DONE, or CTL_FAILED after a message. */
int ctl_scratch_make(struct ctl_scratch *scratch);

/* Remove it with all files in it. Nothing is done if there is none. */
void ctl_scratch_remove(struct ctl_scratch *scratch);
