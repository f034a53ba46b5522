/* SPDX-License-Identifier: MIT */
/*
 * elect.h - one process of a node builds a listing, the others wait: flock on KEY.lock.
 *
 * shardctl inherits the lock (host/builder.h), so it is held while either lives, and gone when both
 * have died: then the next process builds.
 */
#ifndef SHARD_CACHE_ELECT_H
#define SHARD_CACHE_ELECT_H

#include <stddef.h>
#include <stdint.h>

struct shard_entry;

/*
 * Wait for the lock of an entry, SHARD_TIMEOUT seconds at most. *lock is to be given to
 * shard_elect_release() in any case; *deadline (ms of the monotonic clock) is when the wait would
 * have ended. 0, or a negative errno and a line in err[size]; -ETIMEDOUT.
 */
int shard_elect(const struct shard_entry *e, int *lock, int64_t *deadline, char *err, size_t size);

/* -1: there is none. */
void shard_elect_release(int lock);

#endif
