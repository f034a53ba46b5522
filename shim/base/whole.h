/* SPDX-License-Identifier: MIT */
/*
 * whole.h - files that appear whole or not at all.
 *
 * A file is written under a temporary name beside its own, PATH.tmp.XXXXXX, and renamed when it is
 * complete. The temporary is locked (flock) while its writer lives. So whoever writes PATH next can
 * tell what dead writers have left from what living ones are writing, on other nodes too. Where
 * locks do not work, nothing is removed.
 *
 * Functions return 0 or a negative errno, print nothing and allocate nothing. One thread uses one
 * struct shard_whole. A child of fork() shares the lock, and must not call abort or publish.
 */
#ifndef SHARD_BASE_WHOLE_H
#define SHARD_BASE_WHOLE_H

#include <limits.h>

enum shard_whole_mode {
  SHARD_WHOLE_PRIVATE, /* 0600 */
  SHARD_WHOLE_UMASK,   /* 0666 less the umask, which no other thread may change meanwhile */
  SHARD_WHOLE_SHARED   /* 0644 whatever the umask: other users of the node read it, too */
};

enum shard_whole_sync {
  SHARD_WHOLE_LAZY,  /* written to disk when the kernel likes; a crash may leave it empty */
  SHARD_WHOLE_SYNCED /* on disk before it gets its name */
};

struct shard_whole {
  int fd;           /* open for reading and writing; -1 once it is finished */
  const char *path; /* the caller's, who keeps it until publish or abort */
  enum shard_whole_mode mode;
  enum shard_whole_sync sync;
  char letters[8]; /* of the temporary's name; "": there is none */
};

/*
 * May a file that is renamed take the place of `path`? Yes (0) if there is nothing or a regular
 * file, or a link to one. -EISDIR: it is a directory. -EEXIST: a device, a pipe, or /dev/stdout and
 * the like, which must not be replaced whatever they lead to.
 */
int shard_whole_may_replace(const char *path);

/* Begin: make the temporary and lock it. On an error there is nothing to abort. */
int shard_whole_open(struct shard_whole *w, const char *path, enum shard_whole_mode mode,
                     enum shard_whole_sync sync);

/* The temporary's path, to be opened once more or shown. Returns buf. */
const char *shard_whole_temporary(const struct shard_whole *w, char buf[PATH_MAX]);

/*
 * Set the mode, sync and close: the content is complete, and an error of a network file system has
 * been told. Only needed before publish where many files are to appear together and cannot all stay
 * open; their temporaries are not locked any more. After an error, abort.
 */
int shard_whole_finish(struct shard_whole *w);

/* Finish, if that was not done, and give the file its name. On an error it is aborted. */
int shard_whole_publish(struct shard_whole *w);

/*
 * Remove the temporary. What was there under `path` before stays. errno is left alone. Nothing is
 * done to one that was published or aborted before, or is all zeros.
 */
void shard_whole_abort(struct shard_whole *w);

/*
 * Remove what dead writers of `path` have left. Not for libshard.so, whose own opendir() this would
 * call.
 */
void shard_whole_remove_dead(const char *path);

#endif
