/* SPDX-License-Identifier: MIT */
/*
 * permutation.c - keeps bytes in the node's cache for the adapter, such as a permutation: one
 * process makes the bytes, and other processes map them (adapter/api.h, shard_kept_...).
 *
 * KEY.perm is a header of SHARD_KEPT_HEADER bytes, then the bytes; KEY.lock is flock'ed by the
 * process that makes them. Each process that has them open holds a shared lock (lock.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/api.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/kernel.h"
#include "cache/filenames.h"
#include "cache/lock.h"
#include "cache/safe.h"
#include "config/config.h"

#define CHUNK ((size_t)64 << 10)
#define MAGIC "SHRDKEPT"
#define VERSION 1

struct header {
  char magic[8];
  uint32_t version;
  uint32_t crc; /* CRC-32C of the bytes, seeded with that of this header with this field 0 */
  uint64_t size;
  char key[SHARD_CACHE_KEY + 7];
};

_Static_assert(sizeof(struct header) <= SHARD_KEPT_HEADER, "there is room");

struct shard_kept {
  int lock, fd;
  uint64_t size;
  char key[SHARD_CACHE_KEY];
  char file[PATH_MAX], lock_file[PATH_MAX], temporary[PATH_MAX];
};

/* Print the path of a file of a KEY. */
static void print_path(const char *cache, const char *key, enum shard_cache_kind kind,
                       char path[PATH_MAX]) {
  char name[SHARD_CACHE_NAME];
  shard_cache_name_print(kind, key, NULL, (uint64_t)getpid(), name);
  snprintf(path, PATH_MAX, "%s/%s", cache, name);
}

/* Where KEY is kept. The struct is malloc'd; NULL, *rc and a line. */
static struct shard_kept *locate(const char *key, uint64_t size, int *rc, char *err,
                                 size_t errsize) {
  struct shard_kept *k = calloc(1, sizeof(*k));
  char *cache = malloc(PATH_MAX);
  size_t digits = strspn(key, "0123456789abcdef");
  if (!k || !cache) {
    *rc = shard_error_set(err, errsize, -ENOMEM, "out of memory");
  } else if (digits != SHARD_CACHE_KEY - 1 || key[digits] || size > INT64_MAX / 2) {
    *rc = shard_error_set(err, errsize, -EINVAL, "this cannot be kept in the cache");
  } else {
    ssize_t n = shard_cache_dir(cache, PATH_MAX - SHARD_CACHE_NAME, err, errsize);
    *rc = n < 0 ? (int)n : 0;
  }
  if (k && *rc == 0) {
    k->lock = k->fd = -1;
    k->size = size;
    memcpy(k->key, key, sizeof(k->key));
    print_path(cache, key, SHARD_CACHE_PERMUTATION, k->file);
    print_path(cache, key, SHARD_CACHE_LOCK, k->lock_file);
    print_path(cache, key, SHARD_CACHE_NEW, k->temporary);
  }
  free(cache);
  if (*rc != 0) {
    free(k);
    k = NULL;
  }
  return k;
}

static void init_header(const struct shard_kept *k, struct header *h) {
  memset(h, 0, sizeof(*h));
  memcpy(h->magic, MAGIC, sizeof(h->magic));
  h->version = VERSION;
  h->size = k->size;
  memcpy(h->key, k->key, sizeof(k->key));
}

/* The checksum of the header and of the bytes in fd. 0 or a negative errno. */
static int sum(const struct shard_kept *k, int fd, uint32_t *crc) {
  struct header h;
  uint8_t *chunk = malloc(CHUNK);
  int rc = chunk ? 0 : -ENOMEM;
  init_header(k, &h);
  *crc = shard_crc32c(0, &h, sizeof(h));
  /* Read, not mapped: that would count as this process's memory. */
  for (uint64_t at = 0; rc == 0 && at < k->size;) {
    size_t left = k->size - at < CHUNK ? (size_t)(k->size - at) : CHUNK;
    ssize_t n = TEMP_FAILURE_RETRY(pread(fd, chunk, left, (off_t)(SHARD_KEPT_HEADER + at)));
    rc = n > 0 ? 0 : n == 0 ? -EBADMSG : -errno;
    *crc = shard_crc32c(*crc, chunk, n > 0 ? (size_t)n : 0);
    at += n > 0 ? (uint64_t)n : 0;
  }
  free(chunk);
  return rc;
}

/* Open what is kept, if it is whole. The descriptor or a negative errno. */
static int open_whole(const struct shard_kept *k) {
  struct header h, wanted;
  struct stat st;
  uint32_t crc;
  bool first;
  char ignored[1];
  int fd = shard_lock_join(k->file, false, &first, ignored, sizeof(ignored));
  if (fd < 0) {
    return fd;
  }
  init_header(k, &wanted);
  int rc = fstat(fd, &st) == 0 && st.st_size == (off_t)(SHARD_KEPT_HEADER + k->size) &&
                   pread(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h)
               ? 0
               : -EBADMSG;
  rc = rc ? rc : sum(k, fd, &crc);
  if (rc == 0) {
    wanted.crc = crc;
    rc = memcmp(&h, &wanted, sizeof(h)) == 0 ? 0 : -EBADMSG;
  }
  if (rc != 0) {
    close(fd);
  }
  return rc ? rc : fd;
}

/* Make the file to be filled, with room for all of it. The descriptor or a negative errno. */
static int make(const struct shard_kept *k) {
  unlink(k->temporary); /* of a dead process of this number: the lock is ours */
  int fd =
      shard_kernel_create(AT_FDCWD, k->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  int rc = fd < 0 ? -errno : !shard_file_size_allowed(SHARD_KEPT_HEADER + k->size) ? -EFBIG : 0;
  if (rc == 0) { /* a full tmpfs is an error now, and no SIGBUS later */
    do {
      rc = -posix_fallocate(fd, 0, (off_t)(SHARD_KEPT_HEADER + k->size));
    } while (rc == -EINTR);
    rc = rc == 0 && flock(fd, LOCK_SH) != 0 ? -errno : rc; /* as who opens it later */
  }
  if (rc != 0 && fd >= 0) {
    close(fd);
    unlink(k->temporary);
  }
  return rc ? rc : fd;
}

int shard_kept_begin(const char *key, uint64_t size, int *fd, struct shard_kept **making, char *err,
                     size_t errsize) {
  int saved = errno, rc = 0;
  struct shard_kept *k = locate(key, size, &rc, err, errsize);
  *making = NULL;
  *fd = -1;
  if (k) {
    int64_t deadline = shard_clock_ms() + (int64_t)shard_config()->timeout * 1000;
    rc = shard_lock_take(k->lock_file, deadline, NULL, NULL, &k->lock, err, errsize);
    if (rc == -ETIMEDOUT) {
      shard_error_set(err, errsize, rc,
                      "another process has had '%.300s' locked for %u s (SHARD_TIMEOUT)",
                      k->lock_file, shard_config()->timeout);
    }
  }
  if (k && rc == 0) {
    *fd = open_whole(k);
    if (*fd < 0) { /* not there, or damaged */
      *fd = k->fd = make(k);
      *making = k;
    }
    if (*fd < 0) {
      rc = shard_error_set(err, errsize, *fd, "cannot write '%.300s': %s", k->temporary,
                           strerror(-*fd));
      *making = NULL;
    }
  }
  if (k && !*making) {
    shard_lock_release(k->lock, NULL);
    free(k);
  }
  errno = saved;
  return rc;
}

int shard_kept_end(struct shard_kept *k, int good, char *err, size_t errsize) {
  int saved = errno, rc = 0;
  struct header h;
  uint32_t crc;
  if (good) {
    rc = sum(k, k->fd, &crc);
    init_header(k, &h);
    h.crc = crc;
    if (rc == 0 && pwrite(k->fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h)) {
      rc = -EIO;
    }
    if (rc == 0 && rename(k->temporary, k->file) != 0) {
      rc = -errno;
    }
  }
  if (rc != 0 || !good) {
    unlink(k->temporary);
  }
  if (rc != 0) {
    shard_error_set(err, errsize, rc, "cannot write '%.300s': %s", k->file, strerror(-rc));
  }
  shard_lock_release(k->lock, NULL);
  free(k);
  errno = saved;
  return rc;
}

int shard_kept_open(const char *key, uint64_t size, int *fd, char *err, size_t errsize) {
  int saved = errno, rc = 0;
  struct shard_kept *k = locate(key, size, &rc, err, errsize);
  *fd = -1;
  if (k) {
    *fd = open_whole(k);
    rc = *fd >= 0 ? 0
                  : shard_error_set(err, errsize, *fd, "'%.300s': %s", k->file,
                                    *fd == -EBADMSG ? "it is damaged" : strerror(-*fd));
  }
  free(k);
  errno = saved;
  return rc;
}

void shard_kept_remove(const char *key) {
  int saved = errno, rc = 0;
  char ignored[1];
  struct shard_kept *k = locate(key, 0, &rc, ignored, sizeof(ignored));
  if (k) {
    unlink(k->file);
    shard_lock_remove(AT_FDCWD, k->lock_file);
  }
  free(k);
  errno = saved;
}
