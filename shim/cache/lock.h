/* SPDX-License-Identifier: MIT */
/*
 * lock.h - flock on files of the cache: who makes a listing, and who has one.
 *
 * Whoever has the exclusive lock of a file may remove the file. So a lock counts only while its
 * file has its name; who gets the lock of another file looks again.
 *
 * Lock files are this user's alone (0600): whoever can open one, if only for reading, can lock it,
 * and hold up all who want it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * Take the lock of `file`, which is made if need be; `deadline` in ms of the monotonic clock. tell:
 * called each few seconds with how many ms are left; NULL: not. 0, and *lock is to be released. Or
 * a negative errno and a line in err[size]: -ETIMEDOUT (without a line) if somebody else has it.
 */
int shard_lock_take(const char *file, int64_t deadline,
                    void (*tell)(const void *context, int64_t left), const void *context, int *lock,
                    char *err, size_t size);

/* Unlock, and close. -1: nothing. remove: its file goes first, or NULL. */
void shard_lock_release(int lock, const char *remove);

/*
 * Open a file that is whole, with a shared lock, which lasts as long as the descriptor, its copies
 * and its mappings. held: only if another process has such a lock; else the file is removed. *first
 * tells whether none has. The descriptor; -ENOENT; or another negative errno, and why[size] says
 * what is wrong with the file.
 */
int shard_lock_join(const char *file, bool held, bool *first, char *why, size_t size);

/* Remove a file, by its name below directory `at`, unless a process has a lock of it. Whether it
 * was removed. */
bool shard_lock_remove(int at, const char *name);

/* Whether a process seems to have a lock of a file, for people: it takes none. Allocates. */
bool shard_lock_is_held(const struct stat *st);
