/* SPDX-License-Identifier: MIT */
/*
 * real.h - the functions behind our wrappers.
 *
 * All are resolved together, before the first is used: by the constructor, or by the first
 * wrapper if some other library's constructor lists a directory before ours ran. Resolving
 * allocates nothing of ours and writes the same values however often it runs, so two threads may
 * do it at once.
 */
#ifndef SHARD_REAL_H
#define SHARD_REAL_H

#include <dirent.h>
#include <stdbool.h>

#define SHARD_REAL_FUNCTIONS(X)                                                                    \
  X(opendir) X(fdopendir) X(closedir) X(readdir) X(readdir64) X(readdir_r) X(readdir64_r)

/* readdir_r is obsolete, but programs call it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
struct shard_real {
#define X(name) typeof(&name) name;
  SHARD_REAL_FUNCTIONS(X)
#undef X
};
#pragma GCC diagnostic pop

/* The table, resolved. A member is NULL only if libc lacks the function. */
const struct shard_real *shard_real(void);

#endif
