/* SPDX-License-Identifier: MIT */
/* dir.h - the opendir family: what the constructor has to tell it, and how scandir, ftw and fts
 * read a directory by it. */
#pragma once

#include <dirent.h>
#include <stdbool.h>

/*
 * shard_real_table is filled: while there is no stream of ours, calls may go straight to it. To be
 * called once.
 */
void shard_dir_enable(void);

/* The errno of the last of these calls of the thread that failed for a reason of libshard's, not of
 * libc's. Whoever asks sets it to 0 before. */
extern _Thread_local int shard_dir_refused __attribute__((visibility("hidden")));

/* opendir() of a name relative to directory `at`, as of openat(2). */
DIR *shard_dir_open(int at, const char *name);

/* The next entry, as the program sees it: 1, 0 at the end, or -1 and errno; else errno is kept. */
int shard_dir_next(DIR *dir, const struct dirent **entry);

/* closedir(); errno is kept. */
void shard_dir_close(DIR *dir);

/* Whether a name is "." or "..". */
bool shard_dir_is_dot(const char *name);
