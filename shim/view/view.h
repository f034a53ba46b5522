/* SPDX-License-Identifier: MIT */
/*
 * view.h - which directories are served to this process, and what it sees in them.
 *
 * Nothing is kept by file descriptor: what a directory is, is told by its inode, and how far it has
 * been read, by the kernel's own offset of the open file. So descriptors that were duplicated,
 * inherited or received need no more care than those we saw opening.
 *
 * Thread-safe. Fork-proof: nothing is locked that a forked child could find locked for ever.
 */
#ifndef SHARD_VIEW_VIEW_H
#define SHARD_VIEW_VIEW_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/types.h>

#include "libshard.h"

/* A directory of a dataset under the shard view. */
struct shard_served;

/* Whether there is anything to do in this process at all: two loads. */
bool shard_view_active(void);

/*
 * Decide about an open directory. 0 and *out NULL: not ours. 0 and *out: it is, to be given to
 * shard_view_close(). Negative errno: it is ours and cannot be served (a message was printed).
 * Under SHARD_EPOCH=auto this begins a new pass if fd is a root at its beginning and the last pass
 * was read to its end.
 */
int shard_view_open(int fd, struct shard_served **out);

void shard_view_close(struct shard_served *served);

/*
 * Read on, as getdents64(2) would: entries into buf, their bytes returned, 0 at the end, or a
 * negative errno (-EINVAL: not even one entry fits). *position, if not NULL, is where to read on
 * in place of fd's offset; both are moved. d_off is a position, for lseek(2) too.
 */
ssize_t shard_view_read(struct shard_served *served, int fd, void *buf, size_t size,
                        off_t *position);

/*
 * Reading begins anew, as if the directory had just been opened: under SHARD_EPOCH=auto this may be
 * another pass, with another order and window key. 0 or negative errno.
 */
int shard_view_rewind(struct shard_served *served);

/* Seed of the shuffle of what is read, 0: it shall come as it is. See SHARD_WINDOW. */
uint64_t shard_view_window_key(const struct shard_served *served);

#endif
