/* SPDX-License-Identifier: MIT */
/*
 * real.h - the functions behind our wrappers.
 *
 * All are resolved together, before the first is used: by the constructor, or by the first
 * wrapper if some other library's constructor lists a directory before ours ran. Resolving
 * allocates nothing of ours; two threads may do it at once, and one of them writes the table.
 */
#ifndef SHARD_HOST_REAL_H
#define SHARD_HOST_REAL_H

#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wordexp.h>

/* What _FORTIFY_SOURCE calls; glibc declares none of them. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

/* clang-format off */
#define SHARD_REAL_FUNCTIONS(X)                                                                    \
  X(opendir) X(fdopendir) X(closedir)                                                              \
  X(readdir) X(readdir64) X(readdir_r) X(readdir64_r) X(rewinddir) X(seekdir) X(telldir)           \
  X(scandir) X(scandir64) X(scandirat) X(scandirat64)                                              \
  X(glob) X(glob64) X(wordexp)                                                                     \
  X(ftw) X(ftw64) X(nftw) X(nftw64)                                                                \
  X(fts_open) X(fts_read) X(fts_children) X(fts_set) X(fts_close)                                  \
  X(fts64_open) X(fts64_read) X(fts64_children) X(fts64_set) X(fts64_close)                        \
  X(getdents64) X(getdirentries) X(getdirentries64) X(syscall)                                     \
  X(open) X(open64) X(openat) X(openat64) X(creat) X(creat64)                                      \
  X(__open_2) X(__open64_2) X(__openat_2) X(__openat64_2)                                          \
  X(fopen) X(fopen64) X(freopen) X(freopen64) X(_exit) X(_Exit)
/* clang-format on */

/*
 * Functions that behave otherwise under an older symbol version: X(member, name, version). The
 * member is the same as the new one's where libc has no old one.
 */
#if defined(__x86_64__)
#define SHARD_OLD_FUNCTIONS(X)                                                                     \
  X(glob, "GLIBC_2.2.5") X(glob64, "GLIBC_2.2.5") X(nftw, "GLIBC_2.2.5") X(nftw64, "GLIBC_2.2.5")
#elif defined(__aarch64__)
#define SHARD_OLD_FUNCTIONS(X) X(glob, "GLIBC_2.17") X(glob64, "GLIBC_2.17")
#else
#define SHARD_OLD_FUNCTIONS(X)
#endif

/* readdir_r is obsolete, but programs call it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
struct shard_real {
#define X(name) typeof(&name) name;
  SHARD_REAL_FUNCTIONS(X)
#undef X
#define X(name, version) typeof(&name) old_##name;
  SHARD_OLD_FUNCTIONS(X)
#undef X
};
#pragma GCC diagnostic pop

/* The table, resolved. A member is NULL only if libc lacks the function. */
const struct shard_real *shard_real(void);

/* The same for those who know that the constructor has run. */
extern struct shard_real shard_real_table __attribute__((visibility("hidden")));

/* How a wrapper is declared: seen by the program, whatever its visibility in the header. */
#define SHARD_EXPORT __attribute__((visibility("default")))

/*
 * Makes a declared wrapper an old version of a call: SHARD_VERSIONED(shard_old_f, "f@GLIBC_1.0").
 * libshard.map has the versions, and that of the wrapper whose name is the call's.
 */
#if __has_attribute(symver)
#define SHARD_VERSIONED(wrapper, symbol)                                                           \
  extern typeof(wrapper) wrapper __attribute__((symver(symbol)))
#else
#define SHARD_VERSIONED(wrapper, symbol) __asm__(".symver " #wrapper ", " symbol)
#endif

#endif
