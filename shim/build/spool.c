/* SPDX-License-Identifier: MIT */
#include "build/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"

char *shard_spool_folder(const char *file) {
  const char *slash = strrchr(file, '/');
  return !slash ? strdup(".") : slash == file ? strdup("/") : strndup(file, (size_t)(slash - file));
}

int shard_spool_open_unnamed(const char *folder) {
  char name[PATH_MAX];
  int fd;
  do {
    fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    /* Not every file system has unnamed files. */
    if (fd < 0 && errno != EINTR &&
        (size_t)snprintf(name, sizeof(name), "%s/shardctl-XXXXXX", folder) < sizeof(name)) {
      fd = mkostemp(name, O_CLOEXEC);
      if (fd >= 0) {
        unlink(name);
      }
    }
  } while (fd < 0 && errno == EINTR);
  return fd;
}

int shard_spool_write_at(int fd, const void *data, size_t size, off_t at) {
  const uint8_t *p = data;
  while (size > 0) {
    ssize_t n = TEMP_FAILURE_RETRY(pwrite(fd, p, size, at));
    if (n <= 0) {
      return n < 0 ? -errno : -EIO;
    }
    p += n;
    size -= (size_t)n;
    at += n;
  }
  return 0;
}

void shard_spool_init(struct shard_spool *s, const char *folder) {
  *s = (struct shard_spool){.folder = folder, .fd = -1};
}

void shard_spool_free(struct shard_spool *s) {
  free(s->data);
  shard_file_close(s->fd);
  shard_spool_init(s, s->folder);
}

static int spill_to_file(struct shard_spool *s) {
  if (s->fd < 0 && (s->fd = shard_spool_open_unnamed(s->folder)) < 0) {
    return -errno;
  }
  int rc = shard_spool_write_at(s->fd, s->data, s->filled, (off_t)(s->size - s->filled));
  if (rc == 0) {
    s->filled = 0;
  }
  return rc;
}

int shard_spool_add(struct shard_spool *s, const void *data, size_t size) {
  int rc = s->filled + size > SHARD_SPOOL_MEMORY ? spill_to_file(s) : 0;
  uint8_t *more = rc == 0 ? shard_array_grow(s->data, s->filled, size, &s->room, 1) : NULL;
  if (!more) {
    return rc ? rc : size ? -ENOMEM : 0;
  }
  s->data = more;
  memcpy(s->data + s->filled, data, size);
  s->filled += size;
  s->size += size;
  return 0;
}

int shard_spool_read(struct shard_spool *s,
                     int (*take)(void *context, const void *data, size_t size), void *context) {
  uint64_t in_file = s->size - s->filled;
  int rc = 0;
  if (in_file > 0) {
    uint8_t *buffer = malloc(SHARD_SPOOL_MEMORY);
    rc = buffer ? 0 : -ENOMEM;
    for (uint64_t at = 0; rc == 0 && at < in_file;) {
      size_t want = in_file - at < SHARD_SPOOL_MEMORY ? in_file - at : SHARD_SPOOL_MEMORY;
      ssize_t n = TEMP_FAILURE_RETRY(pread(s->fd, buffer, want, (off_t)at));
      rc = n > 0 ? take(context, buffer, (size_t)n) : n < 0 ? -errno : -EIO;
      at += n > 0 ? (uint64_t)n : 0;
    }
    free(buffer);
  }
  return rc || s->filled == 0 ? rc : take(context, s->data, s->filled);
}
