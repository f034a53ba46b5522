/* SPDX-License-Identifier: MIT */
/*
 * make.h - runs shardctl for a request: in one process of the host, while the others wait.
 *
 * The process that runs shardctl has the flock on KEY.lock. shardctl inherits the lock
 * (host/builder.h). The lock lasts while the process or shardctl is alive. After both have died,
 * the next process that waits gets the lock and makes the listing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_request;

/*
 * Takes the lock of a request's KEY. Waits for SHARD_TIMEOUT at most.
 * file: the path of the lock file.
 * lock: gets a descriptor for shard_lock_release(); -1 on an error.
 * deadline: gets the time at which the wait ends, in ms of the monotonic clock.
 * Errors: a negative errno and a line in err[size]. -ETIMEDOUT: another process has the lock.
 */
int shard_make_lock(const struct shard_request *r, const char *file, int *lock, int64_t *deadline,
                    char *err, size_t size);

/* The lock of a KEY that this process has, and the deadline for shardctl: of shard_make_lock(). */
struct shard_making {
  int lock;
  int64_t deadline;
};

/*
 * Runs shardctl to make a listing. If shardctl is killed by a signal, runs shardctl once more. On
 * an error `file` is removed.
 * m: the lock of the KEY, which this process has, and the deadline.
 * text: NULL: the listing is of the request's directory or bucket. Else the path of a manifest; of
 * a request for names, the path of a text in which a NUL follows each name.
 * file: the path of the listing.
 * Errors: a negative errno and a line in err[size]. -ETIMEDOUT: the deadline has passed. -ENOSPC:
 * the disk is full. -EIO: shardctl failed, is missing, or was killed twice.
 */
int shard_make_index(const struct shard_request *r, const struct shard_making *m, const char *text,
                     const char *file, char *err, size_t size);
/*
 * Runs shardctl to get the object s3://bucket/key, or to copy a file, into `file`. The rest is as
 * in shard_make_index().
 */
int shard_make_get(const struct shard_request *r, const struct shard_making *m, const char *url,
                   const char *file, char *err, size_t size);
