/* SPDX-License-Identifier: MIT */
/*
 * real.h - libc's functions behind the wrappers (exports.def lists them), and how a wrapper is
 * declared.
 *
 * All functions are resolved together, before the first is used: by the constructor, or by the
 * first wrapper that is called, if another library's constructor lists a directory before
 * libshard's constructor has run. Several threads may resolve at once; one of them writes the
 * table. libshard allocates nothing for it. Keeps errno.
 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wordexp.h>

/* What _FORTIFY_SOURCE calls; glibc's headers do not declare them. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

/* readdir_r is obsolete, but programs call it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/* A member NAME for each call, and old_NAME for a call that has two versions (exports.def). */
struct shard_real {
#define CALL(name, kind) typeof(&name) name;
#define VERSIONS(name, old, new) typeof(&name) old_##name;
#include "host/exports.def"
};
#pragma GCC diagnostic pop

/*
 * Returns the table, resolved. A member is NULL only if libc lacks the function; if libc lacks an
 * old version, that member is the new version.
 */
const struct shard_real *shard_real(void);

/* The table itself, for callers that know that the constructor has run. */
extern struct shard_real shard_real_table __attribute__((visibility("hidden")));

/* Declares a wrapper: visible to the program, whatever the visibility in the header. */
#define SHARD_EXPORT __attribute__((visibility("default")))

/* Gives the wrapper `of` a second name, `name`, whose type libc's headers have. */
#define SHARD_ALIAS(name, of)                                                                      \
  extern typeof(name) name __attribute__((alias(#of), visibility("default")))

/* Makes the wrapper shard_old_NAME, declared before, the old version of a call. */
#define SHARD_OLD(name) SHARD_VERSIONED(shard_old_##name, #name "@" SHARD_OLDEST_GLIBC)
#if __has_attribute(symver)
#define SHARD_VERSIONED(wrapper, symbol)                                                           \
  extern typeof(wrapper) wrapper __attribute__((symver(symbol)))
#else
#define SHARD_VERSIONED(wrapper, symbol) __asm__(".symver " #wrapper ", " symbol)
#endif
