/* SPDX-License-Identifier: MIT */
/*
 * lock.h - locks files of the cache by flock(2). An exclusive lock of KEY.lock makes one process
 * the maker of a listing; a shared lock of a listing shows that a process has the listing open.
 *
 * A process that has the exclusive lock of a file may remove the file. So a lock counts only while
 * the file has its name: a process that has locked a file which has lost its name opens and locks
 * the file of that name again.
 *
 * Lock files have mode 0600. A process that can open a lock file, even for reading alone, can lock
 * the file and block all other processes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * Takes the exclusive lock of `file`, and creates the file if it is missing. Waits until the lock
 * is free.
 * deadline: when to give up, in ms of the monotonic clock; 0: at once.
 * tell: called every 5 s of the wait with the ms that are left; or NULL.
 * lock: gets a descriptor for shard_lock_release(); -1 on an error.
 * Errors: -ETIMEDOUT, without a line: another process has the lock. Another negative errno and a
 * line in err[size].
 */
int shard_lock_take(const char *file, int64_t deadline,
                    void (*tell)(const void *context, int64_t left), const void *context, int *lock,
                    char *err, size_t size);

/*
 * Unlocks and closes a descriptor.
 * lock: -1: nothing is done.
 * remove: a file to remove before the lock is released, or NULL.
 */
void shard_lock_release(int lock, const char *remove);

/*
 * Opens a complete file of the cache with a shared lock. The lock lasts as long as the descriptor,
 * its copies and its mappings. Waits for a process that has the exclusive lock.
 * held: a file on which no other process has a lock is removed, and the result is -ENOENT.
 * first: gets whether no other process had a lock on the file.
 * why: gets, on an error, a line about the file that does not name the file.
 * Returns the descriptor.
 * Errors: -ENOENT: there is no such file. Another negative errno: of shard_safe_open() or flock(2).
 */
int shard_lock_join(const char *file, bool held, bool *first, char *why, size_t size);

/*
 * Removes the file `name` in directory `at`, unless a process has a lock on the file.
 * at: a descriptor, or AT_FDCWD.
 * Returns whether the file was removed.
 */
bool shard_lock_remove(int at, const char *name);

/*
 * Returns whether a process seems to have a lock on a file, for output to people: /proc/locks is
 * searched for the inode number, and the device is not compared. Takes no lock, because other
 * processes would take that for a lock of a job. Returns true if /proc/locks cannot be read.
 */
bool shard_lock_is_held(const struct stat *st);
