/* SPDX-License-Identifier: MIT */
/*
 * writer.h - writes a listing file from names that arrive in order (shardctl only).
 *
 * One thread. Memory: some MB whatever the number of names, and the directories; what the tables
 * need besides waits in unnamed files beside the listing.
 */
#ifndef SHARD_BUILD_WRITER_H
#define SHARD_BUILD_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "listing/format.h"

struct shard_writer;

/*
 * Begin a listing that will appear as `path`. It is written to a temporary file beside it.
 * attributes: whether d_ino and d_type are kept, or made of the position by the reader.
 * 0 and *out (ended by _commit or _abort), or a negative errno.
 */
int shard_writer_open(const char *path, uint32_t order, enum shard_attributes_kept attributes,
                      struct shard_writer **out);

/*
 * Append a name to a table of format.h: all names first, then all others. It must come after the
 * one before in `order` and have no NUL. -EINVAL if not; -ENAMETOOLONG.
 */
enum shard_writer_table { SHARD_WRITER_NAMES, SHARD_WRITER_OTHERS };
int shard_writer_put(struct shard_writer *w, enum shard_writer_table table, const char *name,
                     size_t length, uint64_t ino, uint8_t type);

/* The same for a name without attributes. */
int shard_writer_add(struct shard_writer *w, const char *name, size_t length);

/* Record a directory walked (struct shard_dir's fields) and its path relative to the root. */
int shard_writer_dir(struct shard_writer *w, uint64_t dev, uint64_t ino, struct timespec mtime,
                     const char *path);

struct shard_writer_facts {
  const char *source, *options;
  uint64_t dirs_hidden, dir_links;
  struct timespec listed;
};

/*
 * Write tables and header, and make the file visible under its path. On failure nothing is
 * visible and an older file is untouched. Frees w in either case.
 * digest_hex (65 bytes) receives the digest; *bytes the file's size.
 */
int shard_writer_commit(struct shard_writer *w, const struct shard_writer_facts *facts,
                        char *digest_hex, uint64_t *bytes);

void shard_writer_abort(struct shard_writer *w);

/* The temporary file's path while open, for messages. */
const char *shard_writer_temporary(struct shard_writer *w);

#endif
