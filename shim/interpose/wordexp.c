/* SPDX-License-Identifier: MIT */
/*
 * wordexp.c - wordexp, which expands no pattern in a dataset.
 *
 * libc's wordexp globs inside libc, past our readdir, after it has parsed as a shell does. So it
 * does its work, and then we look at the words. A directory that it has listed is in the path that
 * a word is: of the name found, or of the pattern if none was. If that directory is of a dataset,
 * the names may be other ranks', so the call fails and gives no words. A word that stands for
 * itself cannot be told from one that was found, and fails the call as well. libc globs only if
 * what it is given has a wildcard; without one the call is libc's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel.h"
#include "host/real.h"
#include "interpose/guard.h"
#include "view/once.h"
#include "view/view.h"

#define LOOKS 20000 /* more are not made: the call fails */

struct judge {
  const char
      *seen; /* the directory that was looked at last, after those above it; no NUL ends it */
  size_t length;
  bool seen_here; /* the current directory was looked at */
  unsigned looks;
};

static int refuse(void) {
  static atomic_bool said;
  shard_once_complain(&said, "wordexp() expands no pattern if one of its words leads into a "
                             "directory of SHARD_DATASET: that fails; glob() does expand it");
  return -ENOTSUP;
}

/* Look at the directory that the first `length` bytes of path lead to; none: the current one. 0: it
 * is of no dataset, or cannot be listed. Else a negative errno. */
static int look_at(const char *path, size_t length) {
  char *name = length > 0 ? strndup(path, length) : strdup(".");
  if (!name) {
    return -ENOMEM;
  }
  int fd = shard_kernel_open(AT_FDCWD, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
  int rc = fd < 0 ? -errno : 0;
  free(name);
  if (fd < 0) {
    bool closed = rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES || rc == -ELOOP;
    return closed || rc == -ENAMETOOLONG ? 0 : rc;
  }
  struct shard_served *served;
  rc = shard_guard_open(fd, &served);
  shard_kernel_close(fd);
  if (served) {
    shard_view_close(served);
    rc = refuse();
  }
  return rc;
}

/* Look at all directories in the path that a word is. */
static int judge(struct judge *j, const char *word) {
  int rc = 0;
  for (const char *p = word; *p && rc == 0; p++) {
    size_t length = (size_t)(p + 1 - word);
    if (length == 1 && *p != '/' && !j->seen_here) {
      rc = look_at("", 0);
      j->seen_here = true;
    }
    if (*p == '/' && (length > j->length || memcmp(word, j->seen, length) != 0)) {
      rc = ++j->looks > LOOKS ? refuse() : look_at(word, length);
      j->seen = word;
      j->length = length;
    }
  }
  return rc;
}

/* If IFS is empty libc makes one word of all names found, with blanks between. A name may have
 * blanks, too, so one may begin behind each of them. */
static int judge_joined(struct judge *j, const char *word) {
  int rc = judge(j, word);
  for (const char *p = strchr(word, ' '); p && rc == 0; p = strchr(p + 1, ' ')) {
    rc = judge(j, p + 1);
  }
  return rc;
}

SHARD_EXPORT int wordexp(const char *restrict words, wordexp_t *restrict result, int flags) {
  if (!shard_view_active() || !strpbrk(words, "*?[")) {
    return shard_real()->wordexp(words, result, flags);
  }
  const char *ifs = getenv("IFS");
  bool joined = ifs && !*ifs;
  struct judge j = {.seen = ""};
  size_t before = flags & WRDE_APPEND ? result->we_wordc : 0;
  int rc = shard_real()->wordexp(words, result, flags), saved = errno, error = 0;
  if ((rc != 0 && rc != WRDE_NOSPACE) || !result->we_wordv) {
    return rc;
  }
  char **made = result->we_wordv + result->we_offs + before;
  for (char **word = made; *word && error == 0; word++) {
    error = joined ? judge_joined(&j, *word) : judge(&j, *word);
  }
  errno = saved;
  if (error != 0) {
    for (char **word = made; *word; word++) {
      free(*word);
    }
    *made = NULL;
    result->we_wordc = before;
    errno = -error;
    rc = WRDE_NOSPACE;
  }
  return rc;
}
