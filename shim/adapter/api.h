/* SPDX-License-Identifier: MIT */
/*
 * api.h - what the Python package of this room calls in libshard.so, beside libshard.h, whose rules
 * hold here, too. Exported, but no API for programs: it may change with the package. Like
 * libshard.h it is of no room: the rooms that have these functions include it.
 */
#pragma once

#include "libshard.h"

#pragma GCC visibility push(default)

/*
 * Gives a class of the Python package its methods of C. The interpreter's lock is held.
 *
 * type    the class, a type object
 * Returns 1; 0: this interpreter cannot have the methods, or there is an exception.
 */
int shard_adapter_quicken(void *type, const char *name);

/* ---- listings that a client makes ------------------------------------------------------------ */

/*
 * Opens a listing of the keys of a bucket, as shard_dataset_open() does of a directory.
 *
 * url     s3://bucket/prefix/; the last slash may be missing
 * options order, sample and include apply
 * environment  variables that shardctl gets over this process's own: "NAME=value", or "NAME" to
 *         unset it; NULL ends the array. They may hold secret keys, and go nowhere else
 * round   processes of one job on this node that pass the same round > 0 have one listing: a
 * process passes 1 when it asks for a prefix first, 2 when it asks again, and so on. 0: the listing
 *         is this call's own
 * since   ns of CLOCK_REALTIME before which no process has asked: the listing was begun later
 */
int shard_dataset_open_s3(const char *url, const char *options, const char *const *environment,
                          uint64_t round, int64_t since, struct shard_listing **out, char *err,
                          size_t size);

/*
 * Opens a listing of names in memory, in just this order. Processes of one job on this node that
 * pass the same names have one. It is found by a hash of the names, so the caller compares.
 *
 * names   names[size] has a NUL behind each; none is empty or as long as a path can be
 */
int shard_names_open(const char *names, size_t size, struct shard_listing **out, char *err,
                     size_t errsize);

/* ---- buckets of SHARD_DATASET ---------------------------------------------------------------- */

/* What SHARD_ variables say of sharing out. */
struct shard_sharing {
  const char *strategy; /* "range", "stride" or "hash"; static storage */
  int seeded;           /* SHARD_SEED is set */
  int includes;         /* SHARD_INCLUDE is set */
  int has_listing;      /* SHARD_LISTING is set */
  int has_stats;        /* SHARD_STATS is set */
};

void shard_sharing_get(struct shard_sharing *out);

/*
 * Reads SHARD_EPOCH from the environment, for a listing that begins at a dataset's root.
 *
 * epoch   gets the number; -1: it was never set; what was read last, if it is gone
 */
int shard_epoch_read(int64_t *epoch, char *err, size_t size);

/*
 * Prints the buckets of SHARD_DATASET, s3://bucket/prefix or gs://bucket/prefix, a line each.
 * Returns the length; -ERANGE: buf is too small.
 */
ssize_t shard_buckets(char *buf, size_t size);

/*
 * Opens the listing of a bucket's dataset: one for all processes of the job on this node. May start
 * shardctl. url and environment as of shard_dataset_open_s3(); *out is the caller's.
 */
int shard_bucket_open(const char *url, const char *const *environment, struct shard_listing **out,
                      char *err, size_t size);

/*
 * Tells which keys are this rank's.
 *
 * listing shard_bucket_open()'s; NULL under SHARD_STRATEGY=hash
 * epoch   shard_epoch_read()'s
 * keys    `count` keys with a NUL behind each; the name in the dataset begins after `skip` bytes
 * every_name  a name that the listing does not have is nobody's; but a folder's marker, or with
 *         every_name any such name, goes to the owner of the next name
 * dataset shard_bucket_pass()'s
 * owned   gets 1 or 0 for each key
 */
int shard_bucket_owned(const struct shard_listing *listing, int64_t epoch, const char *keys,
                       size_t count, size_t skip, int every_name, int dataset, uint8_t *owned,
                       char *err, size_t size);

/*
 * Tells whether this rank's keys in an epoch are a run, the positions [*begin, *end) of the
 * listing. Returns 1; 0 if they are not. Errors: too few keys for SHARD_REMAINDER.
 */
int shard_bucket_run(const struct shard_listing *listing, int64_t epoch, uint64_t *begin,
                     uint64_t *end, char *err, size_t size);

/*
 * For SHARD_STATS: this process begins to list the dataset, or goes on, in this epoch. Returns its
 * number for shard_bucket_owned(); -1 if no statistics are kept.
 */
int shard_bucket_pass(const char *url, const struct shard_listing *listing, int64_t epoch);

/* For SHARD_STATS: this process has opened an object, by its name in the dataset. */
void shard_bucket_opened(const char *url, const char *name);

/* ---- the view of this process ---------------------------------------------------------------- */

enum shard_view { SHARD_VIEW_AUTO, SHARD_VIEW_OFF, SHARD_VIEW_GLOBAL, SHARD_VIEW_SHARD };

/* Returns the view that SHARD_VIEW asks for. */
enum shard_view shard_view_asked(void);

/*
 * Sets this process's view from now on, once it is known whether the program shards by itself. With
 * any view but SHARD_VIEW_SHARD, libc's listing calls return the whole directory.
 */
void shard_view_set(enum shard_view view);

/* ---- statistics of a program that shards by itself --------------------------------------------
 */

/*
 * For SHARD_STATS: the program reads the first `used` entries of a listing. Its epoch is the rank's
 * (shard_run_set_epoch()), else 1.
 *
 * root    the directory that the names lie below, or s3://bucket/prefix/: then its objects are
 *         opened by shard_bucket_opened()
 * needed  for how many of them its steps account in an epoch
 * Errors: -ENOENT: no statistics are kept
 */
int shard_stats_dataset(const char *root, const struct shard_listing *listing, uint64_t used,
                        uint64_t needed);

/*
 * The same of a program that makes its names by counting, the first `used` of `entries`.
 * digest: 64 hexadecimal digits by which processes know that they make the same.
 */
int shard_stats_names(const char *root, const char digest[65], uint64_t entries, uint64_t used,
                      uint64_t needed);

/* Returns the XXH64 of a path, by which a log knows it. */
uint64_t shard_stats_hash(const char *name, size_t length);

/* ---- what the processes of a rank share --------------------------------------------------------
 */

/*
 * Makes the page that the processes of this rank share, in its main process. A child that is forked
 * shares it; one that is started anew does if its environment has LIBSHARD_RUN=place.
 *
 * place   gets that value
 */
int shard_run_begin(char *place, size_t size);

/* From now on an open of prefix...suffix counts as one of `kind`, 0 or 1. */
int shard_run_watch(unsigned kind, const char *prefix, const char *suffix);

/* Returns all opens of a kind until now; -ENOENT: some may be missing. */
int64_t shard_run_opens(unsigned kind);

/* Sets and returns the rank's epoch, 0 if none was set. -ENOENT: this process shares nothing. */
int shard_run_set_epoch(uint64_t epoch);
int64_t shard_run_epoch(void);

/*
 * Notes that bucket number `bucket` of shard_buckets(), below 64, has been listed; and returns
 * whether it has, 0 or 1. -ENOENT: this process did not make what is shared.
 */
void shard_run_set_listed(unsigned bucket);
int shard_run_listed(unsigned bucket);

/* ---- variables and messages -------------------------------------------------------------------
 */

/* Checks the SHARD_ variables. -EINVAL: one is misspelt or has a bad value. */
int shard_config_check(char *err, size_t size);

/* Prints that line and its consequence, once in a process and by one rank of a node. */
void shard_config_complain(void);

enum shard_log_level { SHARD_LOG_ERROR, SHARD_LOG_WARN, SHARD_LOG_INFO, SHARD_LOG_DEBUG };

/* Prints one line to stderr if SHARD_LOG asks for this level. The text must hold no secret. */
void shard_log(int level, const char *text);

/* ---- files that one process of a node makes and others map --------------------------------------
 */

/* Prints the path of the cache directory, and creates and checks it. Returns the path's length. */
ssize_t shard_cache_dir(char *buf, size_t size, char *err, size_t errsize);

/* Bytes of the file before those that are kept. */
#define SHARD_KEPT_HEADER 4096
struct shard_kept;

/*
 * Opens `size` bytes of the cache, which have a checksum; waits until no other process makes them,
 * at most $SHARD_TIMEOUT seconds.
 *
 * key     32 hexadecimal digits
 * fd      gets the file, the caller's to close
 * making  gets NULL if the file is whole. Else the caller fills it, and calls shard_kept_end()
 * Errors: -ETIMEDOUT, -ENOENT, -EBADMSG, ..., with a line in err[errsize]
 */
int shard_kept_begin(const char *key, uint64_t size, int *fd, struct shard_kept **making, char *err,
                     size_t errsize);

/* Ends the making. good 1: the file gets its name; 0: it is dropped. */
int shard_kept_end(struct shard_kept *making, int good, char *err, size_t errsize);

/* The same as shard_kept_begin() of a file that is there and whole; does not wait. */
int shard_kept_open(const char *key, uint64_t size, int *fd, char *err, size_t errsize);

/* Removes the file; a process that has it mapped keeps it. */
void shard_kept_remove(const char *key);

#pragma GCC visibility pop
