/* SPDX-License-Identifier: MIT */
/*
 * glob.c - wraps glob and glob64, in both of libc's versions.
 *
 * libc's glob lists directories inside libc, past libshard's readdir. With GLOB_ALTDIRFUNC it calls
 * libshard's functions instead, and all rules of patterns stay libc's. It gets a copy of the
 * caller's struct, whose function pointers must not change. A program that passes GLOB_ALTDIRFUNC
 * itself gets the names that its own functions list, perhaps by opendir().
 *
 * Unless the caller asks for errors, libc's glob takes a directory that cannot be listed for an
 * empty directory. If libshard has refused the directory, the result would differ from the result
 * without libshard; so glob fails.
 *
 * libc has an older version for programs that may not set gl_lstat: with GLOB_ALTDIRFUNC that
 * version calls gl_stat instead, and misses dangling links. Without the flag both versions are the
 * same, so under the view libshard calls the newer version for both.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <sys/stat.h>

#include "host/real.h"
#include "interpose/dir.h"
#include "view/view.h"

static_assert(sizeof(glob_t) == sizeof(glob64_t), "glob is glob64");
static_assert(sizeof(struct stat) == sizeof(struct stat64), "gl_stat is stat64's");

static void *open_dir(const char *name) { return opendir(name); }
static struct dirent *read_dir(void *dir) { return readdir(dir); }
static void close_dir(void *dir) { closedir(dir); }

/* Calls libc's glob, and fails if libshard has refused a directory. */
static int call_glob(typeof(&glob) real, const char *pattern, int flags,
                     int (*on_error)(const char *, int), glob_t *result) {
  int before = shard_dir_refused_errno; /* on_error() may call glob(), so calls may nest */
  shard_dir_refused_errno = 0;
  int rc = real(pattern, flags, on_error, result);
  if (shard_dir_refused_errno != 0 && (rc == 0 || rc == GLOB_NOMATCH)) {
    errno = shard_dir_refused_errno;
    rc = GLOB_ABORTED;
  }
  shard_dir_refused_errno = before ? before : shard_dir_refused_errno;
  return rc;
}

static int glob_in_view(typeof(&glob) real, const char *pattern, int flags,
                        int (*on_error)(const char *, int), glob_t *result) {
  if (!shard_view_active() || !pattern || !result) {
    return real(pattern, flags, on_error, result);
  }
  if (flags & GLOB_ALTDIRFUNC) {
    return call_glob(real, pattern, flags, on_error, result);
  }
  glob_t copy = *result;
  copy.gl_opendir = open_dir;
  copy.gl_readdir = read_dir;
  copy.gl_closedir = close_dir;
  copy.gl_stat = stat;
  copy.gl_lstat = lstat;
  copy.gl_flags &= ~GLOB_ALTDIRFUNC;
  int rc = call_glob(shard_real()->glob, pattern, flags | GLOB_ALTDIRFUNC, on_error, &copy);
  result->gl_pathc = copy.gl_pathc;
  result->gl_pathv = copy.gl_pathv;
  result->gl_offs = copy.gl_offs;
  /* libc does not always set the flags; then the caller's GLOB_ALTDIRFUNC is kept. */
  if (copy.gl_flags & GLOB_ALTDIRFUNC) {
    result->gl_flags = copy.gl_flags & ~GLOB_ALTDIRFUNC;
  } else {
    result->gl_flags = copy.gl_flags | (result->gl_flags & GLOB_ALTDIRFUNC);
  }
  return rc;
}

SHARD_EXPORT int glob(const char *restrict pattern, int flags, int (*on_error)(const char *, int),
                      glob_t *restrict result) {
  return glob_in_view(shard_real()->glob, pattern, flags, on_error, result);
}

SHARD_ALIAS(glob64, glob);

#ifdef SHARD_OLDEST_GLIBC
typeof(glob) shard_old_glob, shard_old_glob64;
SHARD_ALIAS(shard_old_glob64, shard_old_glob);
SHARD_OLD(glob);
SHARD_OLD(glob64);

SHARD_EXPORT int shard_old_glob(const char *restrict pattern, int flags,
                                int (*on_error)(const char *, int), glob_t *restrict result) {
  return glob_in_view(shard_real()->old_glob, pattern, flags, on_error, result);
}
#endif
