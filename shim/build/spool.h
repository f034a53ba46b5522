/* SPDX-License-Identifier: MIT */
/*
 * spool.h - bytes that are appended now and read later: in memory while they are few, then in an
 * unnamed file (shardctl only). One thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SHARD_SPOOL_MEMORY ((size_t)256 << 10)

struct shard_spool {
  const char *folder; /* the file's; the caller's, and must live as long as the spool */
  uint8_t *data;      /* what is not in the file */
  size_t filled, room;
  int fd;        /* of the file; -1: none yet */
  uint64_t size; /* bytes in file and memory */
};

/* Make an empty spool. */
void shard_spool_init(struct shard_spool *s, const char *folder);

/* Free what the spool holds; it is then empty. */
void shard_spool_free(struct shard_spool *s);

/* Append bytes. 0 or negative errno. */
int shard_spool_add(struct shard_spool *s, const void *data, size_t size);

/* Give all bytes to `take`, in order, in pieces. Its first result other than 0 ends that, and is
 * returned. 0 or negative errno. */
int shard_spool_read(struct shard_spool *s,
                     int (*take)(void *context, const void *data, size_t size), void *context);

/* The folder of a file, such as "." or "/"; malloc'd, the caller's to free. NULL: no memory. */
char *shard_spool_folder(const char *file);

/* Open an unnamed file in a folder, for reading and writing, O_CLOEXEC. -1 and errno on failure. */
int shard_spool_open_unnamed(const char *folder);

/* Write all of data[size] at offset `at`. 0 or negative errno. */
int shard_spool_write_at(int fd, const void *data, size_t size, off_t at);
