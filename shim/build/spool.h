/* SPDX-License-Identifier: MIT */
/*
 * spool.h - bytes that are appended first and read later: in memory while they are few, then in an
 * unnamed file (shardctl only).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SHARD_SPOOL_MEMORY ((size_t)256 << 10) /* bytes that stay in memory */

struct shard_spool {
  const char *folder; /* of the file; the caller's, must live as long as the spool */
  uint8_t *data;      /* the bytes that are not in the file */
  size_t filled, room;
  int fd;        /* of the file; -1: there is none yet */
  uint64_t size; /* bytes in the file and in memory */
};

/* Initialises an empty spool. */
void shard_spool_init(struct shard_spool *s, const char *folder);

/* Frees what a spool holds; the spool is then empty. */
void shard_spool_free(struct shard_spool *s);

/* Appends data[size]. Errors: -ENOMEM, and of open(2) and pwrite(2). */
int shard_spool_add(struct shard_spool *s, const void *data, size_t size);

/*
 * Gives all bytes to `take`, in order, in pieces.
 * take: a result other than 0 ends the reading, and is returned.
 * Errors: -ENOMEM, and of pread(2).
 */
int shard_spool_read(struct shard_spool *s,
                     int (*take)(void *context, const void *data, size_t size), void *context);

/*
 * Returns the folder of a file, such as "." or "/"; malloc'd, the caller's to free. NULL: no
 * memory.
 */
char *shard_spool_folder(const char *file);

/*
 * Opens an unnamed file in a folder for reading and writing.
 * Returns a descriptor with O_CLOEXEC.
 * Errors: -1 and errno.
 */
int shard_spool_open_unnamed(const char *folder);

/* Writes all of data[size] to fd at offset `at`. Errors: of pwrite(2). */
int shard_spool_write_at(int fd, const void *data, size_t size, off_t at);
