/* SPDX-License-Identifier: MIT */
/* dir.h - what the constructor has to tell the opendir family. */
#ifndef SHARD_INTERPOSE_DIR_H
#define SHARD_INTERPOSE_DIR_H

/*
 * shard_real_table is filled: while there is no stream of ours, calls may go straight to it. To be
 * called once.
 */
void shard_dir_enable(void);

/* The errno of the last of these calls of the thread that failed for a reason of libshard's, not of
 * libc's. Whoever asks sets it to 0 before. */
extern _Thread_local int shard_dir_refused __attribute__((visibility("hidden")));

#endif
