/* SPDX-License-Identifier: MIT */
/*
 * wordexp.c - wraps wordexp, which fails for a pattern in a dataset.
 *
 * libc's wordexp parses as a shell does, and then globs inside libc, past libshard's readdir. So
 * libc's wordexp runs first, and then the words are checked. Each directory that libc has listed is
 * part of a word, which is a name that was found, or the pattern if no name was found. If the
 * directory is of a dataset, the names may be other ranks', so the call fails and gives no words.
 * The call fails also for a word that was no pattern, because libc's result does not show which
 * words were. libc globs only if its argument has a wildcard; else nothing is checked.
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

#define MOST_CHECKS 20000 /* directories; if a call needs more, it fails */

struct checked {
  const char *seen; /* the directory that was checked last, after those above it */
  size_t length;    /* of seen, which does not end with NUL */
  bool seen_here;   /* the working directory was checked */
  unsigned checks;
};

/* Prints a line, once. Returns -ENOTSUP. */
static int refuse_pattern(void) {
  static atomic_bool reported;
  shard_once_report(&reported, "wordexp() fails if the words of a pattern lead into a directory of "
                               "SHARD_DATASET; use glob(), which expands the pattern");
  return -ENOTSUP;
}

/* Checks that a directory is of no dataset: the first `length` bytes of path; 0: the working
 * directory. A directory that cannot be listed is of none. */
static int check_directory(const char *path, size_t length) {
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
  struct shard_served_dir *served;
  rc = shard_guard_open(fd, &served);
  shard_kernel_close(fd);
  if (served) {
    shard_view_close(served);
    rc = refuse_pattern();
  }
  return rc;
}

/* Checks all directories in a word. */
static int check_word(struct checked *c, const char *word) {
  int rc = 0;
  for (const char *p = word; *p && rc == 0; p++) {
    size_t length = (size_t)(p + 1 - word);
    if (length == 1 && *p != '/' && !c->seen_here) {
      rc = check_directory("", 0);
      c->seen_here = true;
    }
    if (*p == '/' && (length > c->length || memcmp(word, c->seen, length) != 0)) {
      rc = ++c->checks > MOST_CHECKS ? refuse_pattern() : check_directory(word, length);
      c->seen = word;
      c->length = length;
    }
  }
  return rc;
}

/* Checks a word that has all names, separated by blanks, as libc makes it if IFS is empty. A name
 * may have blanks, too, so a name may begin after each blank. */
static int check_joined(struct checked *c, const char *word) {
  int rc = check_word(c, word);
  for (const char *p = strchr(word, ' '); p && rc == 0; p = strchr(p + 1, ' ')) {
    rc = check_word(c, p + 1);
  }
  return rc;
}

SHARD_EXPORT int wordexp(const char *restrict words, wordexp_t *restrict result, int flags) {
  if (!shard_view_active() || !strpbrk(words, "*?[")) {
    return shard_real()->wordexp(words, result, flags);
  }
  const char *ifs = getenv("IFS");
  bool joined = ifs && !*ifs;
  struct checked c = {.seen = ""};
  size_t before = flags & WRDE_APPEND ? result->we_wordc : 0;
  int rc = shard_real()->wordexp(words, result, flags), saved = errno, error = 0;
  if ((rc != 0 && rc != WRDE_NOSPACE) || !result->we_wordv) {
    return rc;
  }
  char **made = result->we_wordv + result->we_offs + before;
  for (char **word = made; *word && error == 0; word++) {
    error = joined ? check_joined(&c, *word) : check_word(&c, *word);
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
