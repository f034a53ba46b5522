/* SPDX-License-Identifier: MIT */
/*
 * dir.h - the opendir family: what the constructor calls, and how scandir, ftw and fts read a
 * directory by the family.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>

/*
 * Allows calls to go straight to shard_real_table while no DIR is served. Called once, by the
 * constructor, when the table is filled.
 */
void shard_dir_enable(void);

/*
 * The errno of this thread's last opendir, readdir, ... that libshard, not libc, let fail. The
 * reader of the variable sets it to 0 before the call.
 */
extern _Thread_local int shard_dir_refused_errno __attribute__((visibility("hidden")));

/*
 * Opens a directory by a name relative to descriptor `at`, as opendir(3).
 * Errors: NULL and errno.
 */
DIR *shard_dir_open(int at, const char *name);

/*
 * Reads the next entry as the program sees it.
 * Returns 1; 0 at the end; keeps errno then.
 * Errors: -1 and errno.
 */
int shard_dir_next(DIR *dir, const struct dirent **entry);

/* Closes a directory. Keeps errno. */
void shard_dir_close(DIR *dir);

/* Returns whether a name is "." or "..". */
bool shard_dir_is_dot(const char *name);
