/* SPDX-License-Identifier: MIT */
/* file.h - whole files read at once, and descriptors. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* Closes fd unless it is negative. Keeps errno. */
static inline void shard_file_close(int fd) {
  int saved = errno;
  if (fd >= 0) {
    close(fd);
  }
  errno = saved;
}

/*
 * Reads a whole file, also of /proc, where stat(2) gives no size.
 * Returns the bytes and a NUL, which the caller frees.
 * *size: without the NUL.
 * Errors: NULL and errno, of open(2), read(2) or malloc(3).
 */
char *shard_file_read(const char *path, size_t *size);

/*
 * Moves a descriptor below 10 to 10 or above, with O_CLOEXEC, because a host may run with 0, 1 or 2
 * closed. The old descriptor is closed in any case. A negative fd is returned as it is.
 * Returns the descriptor.
 * Errors: -1 and errno.
 */
int shard_file_move_fd(int fd);

/*
 * Returns whether RLIMIT_FSIZE allows a file of `size` bytes. Past the limit the kernel sends
 * SIGXFSZ, which kills the process.
 */
bool shard_file_size_allowed(uint64_t size);
