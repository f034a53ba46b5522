/* SPDX-License-Identifier: MIT */
/*
 * intake.h - takes the names of a source, on their way to a listing (shardctl only).
 *
 * A source (source/) fills in a struct shard_source: facts about the source, and a function that
 * gives every name to the intake. Sorting and writing are left to the builder (build.c), which in
 * turn has no code for directories, texts or buckets.
 *
 * A name is a path relative to the root of the dataset, of at most SHARD_NAME_MAX - 1 bytes. Names
 * may be added in any order. After an error of one of these functions the source stops, and returns
 * the error.
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
  const char *name;         /* what is listed: a canonical directory, a text, an s3:// prefix */
  const char *label;        /* the source's name in messages; NULL: name */
  const char *more_options; /* text appended to the options that the listing keeps; NULL: none */
  const char *twice;        /* ends the message if a name comes twice: the reason, or the remedy */
  bool directory; /* a directory is walked: names come with d_type and d_ino, and the listing must
                     not lie inside the directory */
  bool ordered;   /* names come from one thread, and most likely in order */
  bool once;      /* the source cannot be read a second time */
  bool unique;    /* a name that comes twice is kept once. Without `unique` the name is an error,
                     unless options->order is SHARD_ORDER_KEEP or _DIRECTORY */
  bool typed;     /* names and others come with types, but without inodes */
  bool tree;      /* in order PATH, a name that is the directory of another name is an error */
  const struct timespec *listed; /* when the source had these names; NULL: now */
  /*
   * Gives all names to the intake.
   * Errors: err[size] gets a line, or stays "" if a function of the intake failed. -EAGAIN of a
   * directory: the directory changed meanwhile, and is to be read again. intake->attempt says how
   * often the source has been read before.
   */
  int (*read)(void *context, struct shard_intake *intake, char *err, size_t size);
  /*
   * Writes to text[size] where the source has a name, as in " (FILE, line 7)"; "" if that is not
   * known. NULL: the source never knows.
   */
  void (*find)(void *context, const char *name, size_t length, char *text, size_t size);
  /* Checks the listing in the temporary `file`, before the listing appears. NULL: no check. */
  int (*check)(void *context, const char *file, char *err, size_t size);
  void *context;
};

/* Hashes of directories that a hand remembers. */
#define SHARD_INTAKE_DIRECTORIES 4096

/* A hand, which a source adds names through. Threads that share a hand take turns by a lock. */
struct shard_intake_hand {
  struct shard_intake *intake;
  struct shard_feeder names, others;
  uint64_t seen;            /* names so far, for shard_progress_count() */
  char key[SHARD_NAME_MAX]; /* the form of a name that the sorter gets, in order SAMPLE */
  uint8_t type;       /* of the name that is added; DT_REG, unless a source that is typed sets it */
  size_t last_length; /* of `last`, the directory of the last name of shard_intake_add() */
  uint64_t added[SHARD_INTAKE_DIRECTORIES]; /* hashes of directories that the hand has added to the
                                               others */
  char last[SHARD_NAME_MAX];
};

/* Hands of an intake. */
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
  /* Of the source: */
  const struct shard_options *options;
  unsigned attempt;                                   /* 0: the source is read for the first time */
  struct shard_intake_hand hands[SHARD_INTAKE_HANDS]; /* the source's threads share the hands */
  uint64_t dirs_hidden, dir_links;                    /* as libshard.h has them; set by a walk */
  struct shard_intake_directory *dirs;                /* the directories walked so far */
  size_t dirs_count;

  /* Of the builder: */
  const char *label;
  struct shard_sorter *names, *others; /* others: NULL if the listing has no attributes */
  struct shard_writer *writer;         /* NULL: names go to the sorters */
  bool unique, once;      /* as in struct shard_source; in order KEEP `once` is false */
  int unwritten;          /* the writer's error */
  uint64_t written, line; /* names that the writer has; names so far, in order DIRECTORY */
  uint64_t dropped;       /* names left out: repeated with `unique`, or in a table */
  size_t dirs_room;
  struct shard_intake_table *tables; /* sorted, and each once, after shard_intake_end() */
  size_t tables_count, tables_room;
  pthread_mutex_t mutex;         /* of dirs and tables */
  char error[700];               /* what is wrong with a name, as a message; "" if nothing */
  char numbered[SHARD_NAME_MAX]; /* a name with its number (build/numbered.h) */
};

/*
 * Adds a name that has no inode; its type is hand->type. If the source is ordered, and in the
 * orders KEEP and DIRECTORY, all names come from the same thread. If the listing has others, the
 * directories on the way to the name become others.
 * Errors: -EINVAL, the listing's order has no place for the name, and intake->error tells why;
 * -ERESTART, see shard_intake_open(); of the sorters and of the writer.
 */
int shard_intake_add(struct shard_intake_hand *hand, const char *name, size_t length);

/*
 * Adds an entry that is no directory.
 * ino, type: the kernel's d_ino and d_type.
 * Errors: -EINVAL, as shard_intake_add(); -ENOMEM; of the sorters.
 */
int shard_intake_add_entry(struct shard_intake_hand *hand, const char *path, size_t length,
                           uint64_t ino, uint8_t type);

/*
 * Adds an entry that every rank sees: a directory, a link to a directory, or a file that the
 * options do not include.
 * Errors: -ENOMEM, and of the sorters.
 */
int shard_intake_add_other(struct shard_intake_hand *hand, const char *path, size_t length,
                           uint64_t ino, uint8_t type);

/*
 * Adds a directory that was read to its end.
 * id: the directory's identity at that moment.
 * path: relative to the root; copied.
 * Errors: -ENOMEM.
 */
int shard_intake_add_directory(struct shard_intake_hand *hand, const struct shard_dir *id,
                               const char *path);

/* ---- for the builder ---- */

/*
 * Creates an intake, which the caller frees by shard_intake_free().
 * options, label: must live as long as the intake.
 * Returns NULL if there is no memory.
 */
struct shard_intake *shard_intake_new(const struct shard_options *options, const char *label);

/* Removes everything that was added, and frees the sorters. */
void shard_intake_clear(struct shard_intake *intake);

/* Clears and frees an intake, or NULL. */
void shard_intake_free(struct shard_intake *intake);

/*
 * Opens the hands, before the source is read.
 * names, others: the sorters, which the intake then owns and frees.
 * writer: gets the names at once; stays the caller's. NULL: the sorters get the names.
 * The first name that is out of order ends the use of the writer, which by then has only some of
 * the names: intake->writer becomes NULL. If the source cannot be read again, the sorter has all
 * names so far, and gets the rest. Else adding fails by -ERESTART: the source is to be read again,
 * without a writer.
 */
void shard_intake_open(struct shard_intake *intake, struct shard_sorter *names,
                       struct shard_sorter *others, struct shard_writer *writer);

/*
 * Ends the hands and sorts the tables, when the source has been read.
 * Errors: of the sorters.
 */
int shard_intake_end(struct shard_intake *intake);

/* Returns whether a name lies in a table; the listing has no such name. */
bool shard_intake_in_table(const struct shard_intake *intake, const char *name, size_t length);

/*
 * Returns the message of the sorter that has failed, "" if none has. Lives as long as the sorters.
 */
const char *shard_intake_sorting_error(const struct shard_intake *intake);
