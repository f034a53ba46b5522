/* SPDX-License-Identifier: MIT */
/*
 * glob.h - libc's glob under the shard view, for us.
 */
#ifndef SHARD_INTERPOSE_GLOB_H
#define SHARD_INTERPOSE_GLOB_H

#include <glob.h>

/*
 * As libc's glob, but directories are listed by our opendir. flags must not have GLOB_ALTDIRFUNC;
 * neither pointer may be NULL.
 */
int shard_glob_expand(const char *pattern, int flags, int (*on_error)(const char *, int),
                      glob_t *result);

#endif
