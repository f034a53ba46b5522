/* SPDX-License-Identifier: MIT */
/*
 * whole.h - files that appear whole or not at all.
 *
 * A writer fills a temporary beside the file, PATH.tmp.XXXXXX, and renames it when it is complete.
 * The writer holds a lock (flock) on the temporary as long as it lives. So the next writer of PATH
 * knows the temporaries of dead writers from those of living ones, on other nodes too, and removes
 * the former. Where locks do not work, it removes nothing.
 *
 * Functions return 0 or a negative errno, print nothing and allocate nothing. One thread uses one
 * struct shard_whole. A child of fork() shares the lock, and must not call abort or publish.
 */
#pragma once

#include <limits.h>

enum shard_whole_mode {
  SHARD_WHOLE_PRIVATE, /* 0600 */
  SHARD_WHOLE_UMASK,   /* 0666 less the umask, which no other thread may change meanwhile */
  SHARD_WHOLE_SHARED   /* 0644 whatever the umask: other users of the node read it, too */
};

enum shard_whole_sync {
  SHARD_WHOLE_LAZY, /* the kernel writes it to disk later; a crash of the node may leave it empty */
  SHARD_WHOLE_SYNCED /* the file is on disk before it gets its name */
};

struct shard_whole {
  int fd;           /* of the temporary, for reading and writing; -1 once it is finished */
  const char *path; /* the caller's, and must live until publish or abort */
  enum shard_whole_mode mode;
  enum shard_whole_sync sync;
  char letters[8]; /* the end of the temporary's name; "": there is no temporary */
};

/*
 * May a rename replace `path`? 0: yes, it is nothing, a regular file, or a link to one. -EISDIR:
 * it is a directory. -EEXIST: it is a device, a pipe, or a link into /proc such as /dev/stdout,
 * which must stay whatever it leads to.
 */
int shard_whole_may_replace(const char *path);

/*
 * Make the temporary and lock it. On an error (mkostemp(3), -ENAMETOOLONG, -EBUSY) there is nothing
 * to abort.
 */
int shard_whole_open(struct shard_whole *w, const char *path, enum shard_whole_mode mode,
                     enum shard_whole_sync sync);

/* Print the temporary's path into buf. Returns buf. */
const char *shard_whole_temporary(const struct shard_whole *w, char buf[PATH_MAX]);

/*
 * Set the mode, sync and close, which also brings out the errors of a network file system. Publish
 * does this by itself. Call it where many files shall appear together and cannot all stay open; the
 * temporary is then no longer locked. After an error, abort.
 */
int shard_whole_finish(struct shard_whole *w);

/* Finish, if not done yet, and give the file its name. An error aborts it. */
int shard_whole_publish(struct shard_whole *w);

/*
 * As shard_whole_publish(), and `check` looks at the finished temporary before it gets the name:
 * its result other than 0 aborts, and is returned. check: NULL or a function of the temporary's
 * path.
 */
int shard_whole_publish_checked(struct shard_whole *w,
                                int (*check)(void *context, const char *temporary), void *context);

/* The same as publish if nothing has the name; else -EEXIST, and nothing is done. Where files
 * cannot have two names, it replaces. */
int shard_whole_publish_new(struct shard_whole *w);

/*
 * Remove the temporary; an older file at `path` stays. Does nothing after publish or abort, or if
 * *w is all zeros. errno is left alone.
 */
void shard_whole_abort(struct shard_whole *w);

/*
 * Remove the temporaries that dead writers of `path` have left. Not for libshard.so: it calls
 * opendir(), which would be the wrapper.
 */
void shard_whole_remove_dead(const char *path);
