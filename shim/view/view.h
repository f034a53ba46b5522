/* SPDX-License-Identifier: MIT */
/*
 * view.h - which directories are served to this process, and which entries it sees in them.
 *
 * No state is kept by file descriptor: the open file tells which directory it is, and its offset
 * how far the directory was read. So descriptors that were duplicated, inherited or received need
 * no special care. Keeps errno.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "adapter/api.h"

/* A directory of a dataset under the shard view. */
struct shard_served_dir;

/* Prepares the view when the library is loaded, after shard_config_init(). */
void shard_view_init(void);

/*
 * Prints a warning at the end of a process that has opened files of a dataset, but never listed it.
 */
void shard_view_at_exit(void);

/* Returns whether the shard view is active in this process: two loads. */
bool shard_view_active(void);

/*
 * Decides how open directory fd is served. A root at its beginning is read in SHARD_EPOCH's epoch.
 * Returns 0, and *out, which the caller gives to shard_view_close(); *out is NULL if the directory
 * is read as it is: it is of no dataset, or the world has one rank.
 * Errors: -EBADF, the kernel does not know fd. Others: the directory cannot be served, or it is
 * unknown whether it is of a dataset; a line was printed, unless memory or descriptors are short.
 */
int shard_view_open(int fd, struct shard_served_dir **out);

/* Frees a served directory. */
void shard_view_close(struct shard_served_dir *served);

/*
 * Reads entries into buf[size], as getdents64(2) does. d_off is a position, also for lseek(2).
 * *position: where to read on, in place of fd's offset; both are moved. position is NULL for system
 * calls: they get the kernel's -ENOENT for a removed directory; others get its end.
 * Returns the bytes written; 0 at the end.
 * Errors: -EINVAL, no entry fits.
 */
ssize_t shard_view_read(struct shard_served_dir *served, int fd, void *buf, size_t size,
                        off_t *position);

/*
 * Starts reading anew, as if the directory had just been opened: if SHARD_EPOCH has changed, in
 * another epoch, with another order and window key.
 */
int shard_view_rewind(struct shard_served_dir *served);

/* Returns the seed of the window (SHARD_WINDOW) that shuffles the entries; 0: no shuffle. */
uint64_t shard_view_window_key(const struct shard_served_dir *served);
