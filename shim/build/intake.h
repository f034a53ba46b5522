/* SPDX-License-Identifier: MIT */
/*
 * intake.h - where a source's names go in, on their way to a listing (shardctl only).
 *
 * A source (source/) is a struct shard_source: facts about it, and a function that gives every name
 * to the intake. The source knows nothing of sorting and writing; the builder (build.c) knows
 * nothing of directories, texts and buckets.
 *
 * Names are paths relative to the root of the dataset, at most SHARD_NAME_MAX - 1 bytes, in any
 * order. Functions return 0 or a negative errno; the source then stops, and returns the errno.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "build/sorter.h"
#include "libshard.h"
#include "listing/format.h"
#include "listing/options.h"

struct shard_intake;
struct shard_writer;

struct shard_source {
  const char *name;         /* what is listed: canonical directory, text, s3:// prefix */
  const char *label;        /* what messages call it; NULL: name */
  const char *more_options; /* appended to the options that the listing keeps; NULL: none */
  const char *twice;        /* for the message if a name comes twice: the reason, or the remedy */
  bool directory;           /* a directory is walked: names come with d_type and d_ino, and the
                               listing must not lie inside */
  bool ordered;             /* names come from one thread, and most likely in order */
  bool once;                /* the source cannot be read a second time */
  bool unique;              /* count a name that comes twice once. Else it is an error, unless
                               options->order is SHARD_ORDER_KEEP or _DIRECTORY */
  bool typed;               /* names come with types and no inodes; others too */
  bool tree;                /* a name that is a directory of another, in order PATH, is an error */
  const struct timespec *listed; /* when the names were so; NULL: now */
  /*
   * Give all names to the intake. 0, or a negative errno and a line in err[size]; err stays "" if a
   * function of the intake failed. -EAGAIN of a directory: it changed meanwhile, read it again.
   * intake->attempt says how often the source has been read before.
   */
  int (*read)(void *context, struct shard_intake *intake, char *err, size_t size);
  /* Both may be NULL. Say where a name stands, in text[size], or ""; and look at the listing, the
   * temporary `file`, before it appears: 0, or a negative errno and a line. */
  void (*find)(void *context, const char *name, size_t length, char *text, size_t size);
  int (*check)(void *context, const char *file, char *err, size_t size);
  void *context;
};

#define SHARD_INTAKE_DIRECTORIES 4096

/* What one thread of the source adds names through. No two threads may share one. */
struct shard_intake_hand {
  struct shard_intake *intake;
  struct shard_feeder names, others;
  uint64_t seen;            /* names so far (build/progress.h) */
  char key[SHARD_NAME_MAX]; /* what the sorter gets for a name, in order SAMPLE */
  uint8_t type;             /* of the name that is added, if the source is typed */
  size_t last_length;       /* of `last`, the directory of the last name of shard_intake_add() */
  uint64_t added[SHARD_INTAKE_DIRECTORIES]; /* hashes of directories that it has added */
  char last[SHARD_NAME_MAX];
};

#define SHARD_INTAKE_HANDS 4

/* A directory that was walked. */
struct shard_intake_directory {
  struct shard_dir id;
  char *path; /* relative to the root; "" for the root */
};

/* A directory that is a table (listing/markers.h). */
struct shard_intake_table {
  char *path; /* relative to the root; "" for the root */
  const char *format;
};

struct shard_intake {
  /* For the source. */
  const struct shard_options *options;
  unsigned attempt;                                   /* 0: the source is read for the first time */
  struct shard_intake_hand hands[SHARD_INTAKE_HANDS]; /* for each thread one */
  uint64_t dirs_hidden, dir_links;                    /* of libshard.h; a walk sets them */
  struct shard_intake_directory *dirs;                /* walked so far */
  size_t dirs_count;

  /* The builder's. */
  const char *label;
  struct shard_sorter *names, *others; /* others: NULL if the listing has no attributes */
  struct shard_writer
      *writer;            /* gets names at once, as long as they come in order; NULL: sorters */
  bool unique, once;      /* of struct shard_source */
  int unwritten;          /* the writer's error */
  uint64_t written, line; /* names that the writer has; names so far, in order DIRECTORY */
  uint64_t dropped;       /* names that came twice, with `unique` */
  size_t dirs_room;
  struct shard_intake_table *tables; /* those found; from shard_intake_end() on each once, sorted */
  size_t tables_count, tables_room;
  pthread_mutex_t mutex; /* of dirs and tables */
  char error[700];       /* what is wrong with a name, for people; "" if nothing */
  char numbered[SHARD_NAME_MAX];
};

/*
 * Add a name without inode and type; from one thread, if the source is ordered, or in the orders
 * KEEP and DIRECTORY. If the listing has "others", the directories on the way to the name become
 * some of them.
 */
int shard_intake_add(struct shard_intake_hand *hand, const char *name, size_t length);

/* Add an entry, a non-directory; ino and type are the kernel's d_ino and d_type. */
int shard_intake_add_entry(struct shard_intake_hand *hand, const char *path, size_t length,
                           uint64_t ino, uint8_t type);

/* Add what every rank sees: a directory, a link to one, or a name that is not included. */
int shard_intake_add_other(struct shard_intake_hand *hand, const char *path, size_t length,
                           uint64_t ino, uint8_t type);

/* Add a directory that was read to its end, as it was at that moment. The path is copied. */
int shard_intake_add_directory(struct shard_intake_hand *hand, const struct shard_dir *id,
                               const char *path);

/* ---- for the builder ---- */

/* A new intake, for shard_intake_free(); NULL: no memory. options and label are the caller's, and
 * must live as long as the intake. */
struct shard_intake *shard_intake_new(const struct shard_options *options, const char *label);

/* Forget everything that came in, and free the sorters. */
void shard_intake_clear(struct shard_intake *intake);

/* Clear and free. NULL is allowed. */
void shard_intake_free(struct shard_intake *intake);

/*
 * Begin to read the source: names go to the sorters, which the intake frees, or straight to the
 * writer, which stays the caller's. After a name that is out of order in->writer is NULL, and has
 * only some of them: the sorter has all if the source cannot be read again, else adding fails by
 * -ERESTART.
 */
void shard_intake_open(struct shard_intake *intake, struct shard_sorter *names,
                       struct shard_sorter *others, struct shard_writer *writer);

/* End the hands: the source has been read. 0, or a sorter's error. */
int shard_intake_end(struct shard_intake *intake);

/* Whether a name lies in a table: the listing has none of these. */
bool shard_intake_in_table(const struct shard_intake *intake, const char *name, size_t length);

/* What went wrong in a sorter, for people; "" if nothing. Lives as long as the sorters. */
const char *shard_intake_sorting_error(const struct shard_intake *intake);
