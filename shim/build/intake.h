/* SPDX-License-Identifier: MIT */
/*
 * intake.h - where a source's names go in, on their way to a listing (shardctl only).
 *
 * A source (source/) is a struct shard_source: facts about it, and a function that gives every name
 * to the intake. It knows nothing of sorting and writing; the builder knows nothing of directories,
 * texts and buckets.
 *
 * Names are paths relative to the root of the dataset, at most SHARD_NAME_MAX - 1 bytes, in any
 * order. Functions return 0 or a negative errno, with which the source ends and returns.
 */
#ifndef SHARD_BUILD_INTAKE_H
#define SHARD_BUILD_INTAKE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "build/sorter.h"
#include "libshard.h"
#include "listing/options.h"

struct shard_intake;
struct shard_writer;

struct shard_source {
  const char *name;         /* what the listing is of: canonical directory, text, s3:// prefix */
  const char *label;        /* the same, as messages call it; NULL: name */
  const char *more_options; /* appended to the options that the listing keeps; NULL: none */
  const char *twice;        /* why a name should not come twice, or what to do then */
  bool directory;           /* name is a directory that is walked: names come with d_type and d_ino,
                               and the listing must not lie inside */
  bool ordered;             /* names come from one thread, and most likely in order */
  bool once;                /* it cannot be read a second time */
  /*
   * Give all names to the intake. 0, or a negative errno: with a line in err[size], or with err ""
   * if the intake was at fault. -EAGAIN of a directory: it changed meanwhile, read it anew.
   * intake->attempt says how often it has been read before.
   */
  int (*read)(void *context, struct shard_intake *intake, char *err, size_t size);
  void *context;
};

/* One thread's way in. */
struct shard_intake_hand {
  struct shard_intake *intake;
  struct shard_feeder names, others;
  uint64_t seen;
};

#define SHARD_INTAKE_HANDS 4

/* A directory that was walked. */
struct shard_intake_directory {
  uint64_t dev, ino;
  struct timespec mtime;
  char *path; /* relative to the root; "" for the root */
};

struct shard_intake {
  /* For the source. */
  const struct shard_options *options;
  unsigned attempt; /* 0: the source is read for the first time */
  struct shard_intake_hand
      hands[SHARD_INTAKE_HANDS];       /* one for each thread; the first is _add()'s */
  uint64_t dirs_hidden, dir_links;     /* of libshard.h; a walk sets them */
  struct shard_intake_directory *dirs; /* those that were walked so far */
  size_t dirs_count;

  /* The builder's. */
  const char *label;
  bool progress;
  struct shard_sorter *names, *others; /* others: NULL if the listing has no attributes */
  struct shard_writer *writer;         /* names go there at once, in the order they come; or NULL */
  uint64_t written, line;
  size_t dirs_room;
  pthread_mutex_t mutex; /* of dirs */
  atomic_uint_fast64_t seen;
  atomic_int_fast64_t said; /* when progress was last told, seconds */
  struct timespec begin;
  char error[700];    /* what is wrong with a name, for people; "" if nothing */
  size_t last_length; /* of the directory of the last name */
  char last[SHARD_NAME_MAX];
  char numbered[SHARD_NAME_MAX];
};

/*
 * A name of a source that has names alone, by one thread. The directories on the way to it become
 * "others" of the listing, if it has those.
 */
int shard_intake_add(struct shard_intake *intake, const char *name, size_t length);

/* A non-directory; d_ino and d_type as the kernel gives them. */
int shard_intake_add_entry(struct shard_intake_hand *hand, const char *path, size_t length,
                           uint64_t ino, uint8_t type);

/* What every rank sees: a directory, a link to one, or a name that is not included. */
int shard_intake_add_other(struct shard_intake_hand *hand, const char *path, size_t length,
                           uint64_t ino, uint8_t type);

/* A directory that was read to its end, with its identity and mtime as of then. Any thread. */
int shard_intake_add_directory(struct shard_intake_hand *hand, uint64_t dev, uint64_t ino,
                               struct timespec mtime, const char *path);

/* ---- for the builder ---- */

/* Malloc'd; NULL: no memory. label is the caller's, as long as the intake lives. */
struct shard_intake *shard_intake_new(const struct shard_options *options, const char *label,
                                      bool progress);

/* Forget everything that came in, and free the sorters. */
void shard_intake_clear(struct shard_intake *intake);
void shard_intake_free(struct shard_intake *intake);

/* The source is about to be read: into these sorters, or straight to this writer. */
void shard_intake_open(struct shard_intake *intake, struct shard_sorter *names,
                       struct shard_sorter *others, struct shard_writer *writer);

/* The source has been read. */
int shard_intake_end(struct shard_intake *intake);

/* What went wrong in a sorter, for people; "" if nothing. */
const char *shard_intake_sorting_error(const struct shard_intake *intake);

#endif
