/* SPDX-License-Identifier: MIT */
/*
 * lock.h - a lock file of the cache: flock on it, until a deadline.
 *
 * The owner of the lock may remove the file, as the last thing that it does. A process that was
 * waiting then has the lock of a file without a name: it looks, and takes the lock of the file that
 * has the name now.
 *
 * Lock files are this user's alone (0600): whoever can open one, if only for reading, can lock it,
 * and hold up all who want it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Take the lock of `file`, which is made if need be; `deadline` in ms of the monotonic clock. tell:
 * called each few seconds with how many ms are left; NULL: not. 0, and *lock is to be released. Or
 * a negative errno and a line in err[size]: -ETIMEDOUT (without a line) if somebody else has it.
 */
int shard_lock_take(const char *file, int64_t deadline,
                    void (*tell)(const void *context, int64_t left), const void *context, int *lock,
                    char *err, size_t size);

/* Unlock, and close. -1: nothing. */
void shard_lock_release(int lock);

/* Remove the file, if nobody has the lock. */
void shard_lock_remove(const char *file);
