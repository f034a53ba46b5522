/* SPDX-License-Identifier: MIT */
/* file.h - small files read whole, those of /proc too, whose size is not known beforehand. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* Close a descriptor of open(2), if it is one. errno is kept. */
static inline void shard_file_close(int fd) {
  int saved = errno;
  if (fd >= 0) {
    close(fd);
  }
  errno = saved;
}

/*
 * The file's bytes and a NUL, malloc'd, the caller's to free; *size counts without the NUL. On
 * failure NULL and errno, of open(2), read(2) or malloc(3).
 */
char *shard_file_read(const char *path, size_t *size);

/*
 * Move a descriptor out of the way of 0 to 9, for a host may run with 0, 1 or 2 closed; it has
 * O_CLOEXEC then. fd < 0 stays. The descriptor, or -1 and errno; the old one is closed.
 */
int shard_file_move_fd(int fd);

/* Whether the process may make a file of so many bytes: past RLIMIT_FSIZE the kernel sends SIGXFSZ,
 * which kills. */
bool shard_file_may_have(uint64_t size);
