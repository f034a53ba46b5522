/* SPDX-License-Identifier: MIT */
/*
 * writer.h - writes a listing file from names that arrive in order (shardctl only).
 *
 * One thread. Memory: some MB whatever the number of names, and the directories. What is written
 * behind the names waits in unnamed files beside the listing.
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
 * Begin a listing that will appear as `path`, in a temporary beside it (base/atomic_file.h); remove
 * those that dead writers have left. 0, and *out is for _commit() or _abort(); or a negative errno.
 */
int shard_writer_open(const char *path, uint32_t order, enum shard_attributes_kept attributes,
                      enum shard_sample sample, struct shard_writer **out);

/*
 * Append a name to a table of format.h: all names first, then all others. 0. -EEXIST, and the
 * writer goes on, if the name is the one before it and the listing's order takes no name twice;
 * -EINVAL, and it goes on, if the name has a NUL or may not follow the name before it (others of
 * order DIRECTORY: in order PATH); -ENOTDIR, and it goes on, if that is forbidden and an earlier
 * name, shard_writer_above() bytes, is a directory of the name. -ENAMETOOLONG. Other errors: abort.
 */
enum shard_writer_table { SHARD_WRITER_NAMES, SHARD_WRITER_OTHERS };
int shard_writer_put(struct shard_writer *w, enum shard_writer_table table, const char *name,
                     size_t length, uint64_t ino, uint8_t type);

/* Whether the name that was put last differs from the one before in a number of its basename only.
 */
bool shard_writer_counted(const struct shard_writer *w);

/* From now on no name may lie below another: order PATH only. */
void shard_writer_forbid_below(struct shard_writer *w);
size_t shard_writer_above(const struct shard_writer *w);

/* Add a directory walked and its path relative to the root. 0 or -ENOMEM. */
int shard_writer_dir(struct shard_writer *w, const struct shard_dir *id, const char *path);

/* Add a directory that is a table, and its format's name. 0 or -ENOMEM. */
int shard_writer_table(struct shard_writer *w, const char *format, const char *path);

/* Facts of struct shard_listing_info that the writer cannot count itself. */
struct shard_writer_facts {
  const char *source, *options;
  uint64_t dirs_hidden, dir_links;
  struct timespec listed; /* when the listing was begun, CLOCK_REALTIME */
  int (*check)(void *context,
               const char *file); /* as of shard_atomic_file_publish_checked(), or NULL */
  void *context;
};

/*
 * Write tables and header, read the file back, and let it appear at its path. On failure an older
 * file stays, unless the file system damages what it renames. Frees w in any case. digest_hex (65
 * bytes) receives the digest; *bytes the file's size. 0 or a negative errno; -EBADMSG: the file is
 * not what was written.
 */
int shard_writer_commit(struct shard_writer *w, const struct shard_writer_facts *facts,
                        char *digest_hex, uint64_t *bytes);

/* Remove the temporary and free w. NULL is allowed. */
void shard_writer_abort(struct shard_writer *w);
