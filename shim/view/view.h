/* SPDX-License-Identifier: MIT */
/*
 * view.h - which directories are served to this process, and which of their names it sees.
 *
 * Thread-safe. Fork-proof: nothing is locked that a forked child could find locked for ever.
 */
#ifndef SHARD_VIEW_H
#define SHARD_VIEW_H

#include <dirent.h>
#include <stdbool.h>

#include "libshard.h"

/* A directory of a dataset under the shard view. Opaque; from malloc. */
struct shard_stream;

/* Whether there is anything to do in this process at all: one atomic load. */
bool shard_view_active(void);

/*
 * Decide about an open directory. 0 and *out NULL: not ours. 0 and *out: a stream, to be freed
 * with free(). Negative errno: it is ours and cannot be served (a message was printed).
 */
int shard_view_open(int fd, struct shard_stream **out);

/* 1: this process sees the entry; 0: it does not; negative errno: the listing is damaged. */
int shard_view_sees(struct shard_stream *stream, int fd, const char *name, unsigned char d_type);

#endif
