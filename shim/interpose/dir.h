/* SPDX-License-Identifier: MIT */
/* dir.h - what the constructor has to tell the opendir family. */
#ifndef SHARD_INTERPOSE_DIR_H
#define SHARD_INTERPOSE_DIR_H

/*
 * shard_real_table is filled: while there is no stream of ours, calls may go straight to it. To be
 * called once.
 */
void shard_dir_enable(void);

#endif
