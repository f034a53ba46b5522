/* SPDX-License-Identifier: MIT */
/*
 * writer.h - writes a listing file from names that come in order (shardctl only).
 *
 * Memory: some MB whatever the number of names, and the directories' paths. What follows the names
 * in the file waits in unnamed files beside the listing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/words.h"
#include "listing/format.h"

struct shard_writer;

/*
 * Begins a listing in a temporary file beside `path` (base/atomic_file.h), and removes the
 * temporaries that dead writers have left.
 * path: where the listing appears in the end.
 * out: gets the writer, which shard_writer_commit() or shard_writer_abort() frees.
 * Errors: -ENOMEM, and of shard_atomic_file_open().
 */
int shard_writer_open(const char *path, uint32_t order, enum shard_attributes_kept attributes,
                      enum shard_sample sample, struct shard_writer **out);

/* The tables of listing/format.h: all names come first, then all others. */
enum shard_writer_table { SHARD_WRITER_NAMES, SHARD_WRITER_OTHERS };
/*
 * Appends a name to a table.
 * Errors: the writer goes on after
 * - -EEXIST: the name is the name before it, and the listing's order takes no name twice;
 * - -EINVAL: the name has a NUL, or may not follow the name before it. In the orders DIRECTORY and
 *   SAMPLE, others come in order PATH. Also a name that comes after an other;
 * - -ENOTDIR: shard_writer_forbid_below() forbids the name, as an earlier name is its directory;
 * - -ENAMETOOLONG: the name is empty, or has SHARD_NAME_MAX bytes or more.
 * After any other error the caller aborts.
 */
int shard_writer_put(struct shard_writer *w, enum shard_writer_table table, const char *name,
                     size_t length, uint64_t ino, uint8_t type);

/*
 * Returns whether the last name continues a run: the last name is the name before with a number of
 * the basename higher by 1. For the second name of a run the function returns false.
 */
bool shard_writer_counted(const struct shard_writer *w);

/* Forbids that a later name lies below another name. Only in order PATH. */
void shard_writer_forbid_below(struct shard_writer *w);
/*
 * Returns the length of the directory at which shard_writer_put() refused the last name by
 * -ENOTDIR.
 */
size_t shard_writer_above(const struct shard_writer *w);

/*
 * Adds a directory that was walked.
 * path: relative to the root.
 * Errors: -ENOMEM, -ENAMETOOLONG.
 */
int shard_writer_dir(struct shard_writer *w, const struct shard_dir *id, const char *path);

/*
 * Adds a directory that is a table.
 * format: the name of the table's format.
 * path: relative to the root.
 * Errors: -ENOMEM.
 */
int shard_writer_table(struct shard_writer *w, const char *format, const char *path);

/* Facts of struct shard_listing_info that the writer cannot count. */
struct shard_writer_facts {
  const char *source, *options;
  uint64_t dirs_hidden, dir_links;
  struct timespec listed; /* when the listing was begun, CLOCK_REALTIME */
  int (*check)(void *context,
               const char *file); /* as in shard_atomic_file_publish_checked(); may be NULL */
  void *context;
};

/*
 * Writes the tables and the header, reads the file back, and lets the file appear at its path.
 * Frees w, after an error too.
 * digest_hex: gets the digest, in 65 bytes.
 * bytes: gets the size of the file.
 * Errors: -EBADMSG, the file is not what was written. An older file stays, unless the file system
 * damages what it renames.
 */
int shard_writer_commit(struct shard_writer *w, const struct shard_writer_facts *facts,
                        char *digest_hex, uint64_t *bytes);

/* Removes the temporary and frees w, or NULL. */
void shard_writer_abort(struct shard_writer *w);
