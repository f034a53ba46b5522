/* SPDX-License-Identifier: MIT */
/*
 * late.h - opens that come after the statistics are made: what is written there tells of them. The
 * library and shardctl both do it.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel.h"

/*
 * What the statistics have in their first so many bytes: the nonce as 16 hex digits behind
 * SHARD_LATE_KEY and, if nothing is lost, SHARD_LATE_NOTHING, which is JSON. Who notes anything
 * later makes that 0 a 1, in place. No text has these, for it has a backslash before each quotation
 * mark.
 */
#define SHARD_LATE_TOLD 2048
#define SHARD_LATE_KEY "\"log\": \""
#define SHARD_LATE_NOTHING "\"lost\": 0,"
#define SHARD_LATE_DIGIT 8

/* Whether the statistics that begin with this text are of this log. */
static inline bool shard_late_are_of(const char *text, uint64_t nonce) {
  const char *at = strstr(text, SHARD_LATE_KEY);
  uint64_t found = 0;
  at += at ? strlen(SHARD_LATE_KEY) : 0;
  for (int i = 0; at && i < 16; i++) {
    char c = at[i];
    bool letter = c >= 'a' && c <= 'f';
    if (!letter && (c < '0' || c > '9')) {
      return false;
    }
    found = found << 4 | (uint64_t)(letter ? c - 'a' + 10 : c - '0');
  }
  return at && found == nonce;
}

static inline int shard_late_tell_open(int fd, uint64_t nonce) {
  char text[SHARD_LATE_TOLD] = "";
  ssize_t n = syscall(SYS_pread64, fd, text, sizeof(text) - 1, 0);
  if (n <= 0) {
    return n < 0 ? -errno : -EBADMSG;
  }
  if (!shard_late_are_of(text, nonce)) {
    return 0;
  }
  const char *nothing = strstr(text, SHARD_LATE_NOTHING);
  off_t at = nothing ? nothing - text + SHARD_LATE_DIGIT : 0;
  return !nothing || syscall(SYS_pwrite64, fd, "1", (size_t)1, at) == 1 ? 1 : -errno;
}

/*
 * Let the statistics in `file` say that something is lost, if they are of the log with this nonce.
 * 1: they do. 0: they are of another log. Or a negative errno: they cannot be read or changed.
 * It allocates nothing, and may be called in a signal handler. errno may change.
 */
static inline int shard_late_tell(const char *file, uint64_t nonce) {
  int fd = shard_kernel_open(AT_FDCWD, file, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  int rc = fd < 0 ? -errno : shard_late_tell_open(fd, nonce);
  shard_kernel_close(fd);
  return rc;
}
