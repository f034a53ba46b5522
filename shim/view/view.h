/* SPDX-License-Identifier: MIT */
/*
 * view.h - which directories are served to this process, and what it sees in them.
 *
 * Nothing is kept by file descriptor: the open file tells which directory it is, and the kernel's
 * offset of the open file how far it has been read. So descriptors that were duplicated, inherited
 * or received need no more care than those that we saw being opened.
 *
 * Thread-safe. Fork-proof: a forked child finds nothing locked for ever. errno is kept.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "libshard.h"

/* A directory of a dataset under the shard view. */
struct shard_served;

/* When the library is loaded, after shard_config_init(). */
void shard_view_init(void);

/* The process is about to end: a line, if it has opened what it has not listed. */
void shard_view_leave(void);

/* Whether there is anything to do in this process at all: a test of two loads. */
bool shard_view_active(void);

/*
 * Decide how open directory fd is served. 0 and *out NULL: as it is; it is of no dataset, or the
 * world is of one rank. 0 and *out: it is of a dataset; the caller gives *out to
 * shard_view_close(). -EBADF: the kernel does not know fd. Another negative errno: it is of one and
 * cannot be served, or that cannot be told; a message was printed, but of a lack of memory or
 * descriptors.
 *
 * A root at its beginning is read in the epoch that SHARD_EPOCH tells then.
 */
int shard_view_open(int fd, struct shard_served **out);

void shard_view_close(struct shard_served *served);

/*
 * Read on, as getdents64(2) would: entries into buf, their bytes returned, 0 at the end, or a
 * negative errno (-EINVAL: not even one entry fits). *position, if not NULL, is where to read on
 * in place of fd's offset; both are moved. d_off is a position, for lseek(2) too. position is NULL
 * for system calls: they get the kernel's ENOENT of a directory that has been removed, which is the
 * end for all others.
 */
ssize_t shard_view_read(struct shard_served *served, int fd, void *buf, size_t size,
                        off_t *position);

/*
 * Reading begins anew, as if the directory had just been opened: in another epoch, with another
 * order and window key, if SHARD_EPOCH tells another one. 0 or negative errno.
 */
int shard_view_rewind(struct shard_served *served);

/* The seed with which entries are shuffled in a window (SHARD_WINDOW); 0: they come as they are. */
uint64_t shard_view_window_key(const struct shard_served *served);
