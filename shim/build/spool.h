/* SPDX-License-Identifier: MIT */
/*
 * spool.h - bytes that are appended now and read once, later: in memory while they are few, then in
 * an unnamed file (shardctl only). One thread.
 */
#ifndef SHARD_BUILD_SPOOL_H
#define SHARD_BUILD_SPOOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SHARD_SPOOL_MEMORY ((size_t)256 << 10)

struct shard_spool {
  const char *folder; /* for the file; the caller's, as long as the spool lives */
  uint8_t *data;      /* what has not gone to the file */
  size_t filled, room;
  int fd;        /* -1: none yet */
  uint64_t size; /* all bytes */
};

/* A spool that is all zeros but for folder and fd is empty, too. */
void shard_spool_init(struct shard_spool *s, const char *folder);
void shard_spool_free(struct shard_spool *s);

/* 0 or negative errno. */
int shard_spool_add(struct shard_spool *s, const void *data, size_t size);

/* Give all bytes to `take`, in order, in pieces; ended by its first error. 0 or negative errno. */
int shard_spool_read(struct shard_spool *s,
                     int (*take)(void *context, const void *data, size_t size), void *context);

/* The folder of a file; malloc'd. */
char *shard_spool_folder(const char *file);

/* An unnamed file in a folder, read and written; or -1 and errno. */
int shard_spool_open_unnamed(const char *folder);

/* Write all of data[size] at offset `at`. 0 or negative errno. */
int shard_spool_write_at(int fd, const void *data, size_t size, off_t at);

#endif
