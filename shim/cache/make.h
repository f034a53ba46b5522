/* SPDX-License-Identifier: MIT */
/*
 * make.h - who makes what is not in the cache: one process of the node, by shardctl, while the
 * others wait.
 *
 * It has the flock on KEY.lock. shardctl inherits that (host/builder.h), so it is held while either
 * lives, and gone when both have died: then the next process makes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_request;

/*
 * Wait for the lock of a request's key, SHARD_TIMEOUT seconds at most. *lock is for
 * shard_lock_release() in any case; *deadline (ms of the monotonic clock) is when the wait would
 * have ended. 0, or a negative errno and a line in err[size]; -ETIMEDOUT.
 */
int shard_make_lock(const struct shard_request *r, int *lock, int64_t *deadline, char *err,
                    size_t size);

enum shard_make_how {
  SHARD_MAKE_FILE, /* a listing; or an object is got */
  SHARD_MAKE_PARTS /* a bucket's listing in parts (stream.h): there is a first one */
};

struct shard_making {
  enum shard_make_how how;
  int lock;
  int64_t deadline;
};

/*
 * Run shardctl until `file`, or what begins with that, is there; a second time if it is killed by a
 * signal. The lock is ours; leftovers are removed before it, and after one that failed. 0, or a
 * negative errno and a line in err[size]; -ETIMEDOUT.
 */
int shard_make(const struct shard_request *r, const struct shard_making *m, const char *file,
               char *err, size_t size);
