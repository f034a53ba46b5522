/* SPDX-License-Identifier: MIT */
/*
 * make.h - shardctl at work for a request: by one process of the host, while the others wait.
 *
 * That process has the flock on KEY.lock. shardctl inherits it (host/builder.h), so it is held
 * while either lives, and gone when both have died: then the next process makes the listing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_request;

/*
 * Wait for the lock of a request's KEY, `file`, SHARD_TIMEOUT seconds at most. *lock is for
 * shard_lock_release() in any case; *deadline (ms of the monotonic clock) is when the wait would
 * have ended. 0, or a negative errno and a line in err[size]; -ETIMEDOUT.
 */
int shard_make_lock(const struct shard_request *r, const char *file, int *lock, int64_t *deadline,
                    char *err, size_t size);

struct shard_making {
  int lock;
  int64_t deadline;
};

/*
 * Run shardctl until `file` is there; a second time if it is killed by a signal. The lock is ours;
 * a failed one leaves no file. 0, or a negative errno and a line in err[size]; -ETIMEDOUT.
 *
 * _index: the listing of the request's directory or bucket, or, if it is not NULL, of a text; of a
 * request for names, of a text that has a NUL behind each.
 * _get: the object s3://bucket/key.
 */
int shard_make_index(const struct shard_request *r, const struct shard_making *m, const char *text,
                     const char *file, char *err, size_t size);
int shard_make_get(const struct shard_request *r, const struct shard_making *m, const char *url,
                   const char *file, char *err, size_t size);
