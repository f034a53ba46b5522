/* SPDX-License-Identifier: MIT */
/* file.h - small files read whole, those of /proc too, whose size is not known beforehand. */
#pragma once

#include <errno.h>
#include <stddef.h>
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
