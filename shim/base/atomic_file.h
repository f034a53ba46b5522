/* SPDX-License-Identifier: MIT */
/*
 * atomic_file.h - files that appear complete or not at all.
 *
 * A writer fills a temporary file beside PATH, PATH.tmp.XXXXXX, and renames the temporary to PATH
 * when it is complete. While the writer lives, it holds a lock (flock) on the temporary. So the
 * next writer of PATH can tell the temporaries of dead writers from those of living writers, also
 * on other nodes, and remove the former. Where locks do not work, nothing is removed.
 *
 * Nothing is allocated. A child of fork() shares the lock, and must call neither abort nor publish.
 */
#pragma once

#include <limits.h>

enum shard_atomic_file_mode {
  SHARD_ATOMIC_FILE_PRIVATE, /* 0600 */
  SHARD_ATOMIC_FILE_UMASK,   /* 0666 less the umask, which no other thread may change meanwhile */
  SHARD_ATOMIC_FILE_SHARED   /* 0644 whatever the umask: other users of the node read the file */
};

enum shard_atomic_file_sync {
  SHARD_ATOMIC_FILE_LAZY,  /* no fsync(2): after a crash of the node the file may be empty */
  SHARD_ATOMIC_FILE_SYNCED /* fsync(2) before the rename */
};

struct shard_atomic_file {
  int fd;           /* of the temporary, for reading and writing; -1 once it is finished */
  const char *path; /* the caller's; must live until publish or abort */
  enum shard_atomic_file_mode mode;
  enum shard_atomic_file_sync sync;
  char letters[8]; /* the last letters of the temporary's name; "": there is no temporary */
};

/*
 * Checks whether a rename may replace `path`.
 * Returns 0: nothing is there, or a regular file, or a link to a regular file.
 * Errors: -EISDIR, a directory; -EEXIST, a device, a pipe, or a link into /proc such as
 * /dev/stdout, which must stay whatever the link leads to.
 */
int shard_atomic_file_may_replace(const char *path);

/*
 * Creates and locks the temporary.
 * Errors: of mkostemp(3); -ENAMETOOLONG; -EBUSY. After an error there is nothing to abort.
 */
int shard_atomic_file_open(struct shard_atomic_file *w, const char *path,
                           enum shard_atomic_file_mode mode, enum shard_atomic_file_sync sync);

/* Prints the temporary's path into buf. Returns buf. */
const char *shard_atomic_file_temporary(const struct shard_atomic_file *w, char buf[PATH_MAX]);

/*
 * Sets the mode of the temporary, syncs and closes it, which unlocks it; publish does this by
 * itself. For callers that publish many files together and cannot keep all of them open.
 * Errors: of fchmod(2), fsync(2) and close(2), among them late errors of a network file system; the
 * caller then aborts.
 */
int shard_atomic_file_finish(struct shard_atomic_file *w);

/* Finishes the file, if finish was not called, and renames it to its path. An error aborts it. */
int shard_atomic_file_publish(struct shard_atomic_file *w);

/*
 * Publishes the file if check() accepts it.
 * check: gets the path of the finished temporary; a result other than 0 aborts the file and is
 * returned. NULL: no check.
 */
int shard_atomic_file_publish_checked(struct shard_atomic_file *w,
                                      int (*check)(void *context, const char *temporary),
                                      void *context);

/*
 * Removes the temporary; an older file at `path` stays. Does nothing after publish or abort, or if
 * *w is all zeros. Keeps errno.
 */
void shard_atomic_file_abort(struct shard_atomic_file *w);

/*
 * Removes the temporaries that dead writers of `path` have left. Only for shardctl: in libshard.so
 * opendir() would be the wrapper.
 */
void shard_atomic_file_remove_stale(const char *path);
