/* SPDX-License-Identifier: MIT */
/*
 * api.h - declares the functions of libshard.so that the adapter's Python package calls, besides
 * those of libshard.h. The rules of libshard.h hold here, too. The functions are exported, but are
 * no API for programs: they may change with the package. Like libshard.h this header belongs to no
 * room: the rooms that define the functions include it.
 */
#pragma once

#include "libshard.h"

#pragma GCC visibility push(default)

/*
 * Sets the methods in C in a class of the Python package. The caller holds the interpreter's lock.
 *
 * type    the class, a type object, which must not be freed
 * name    the class's name
 * Returns 1; 0: this interpreter cannot have the methods, or there is an exception.
 */
int shard_adapter_quicken(void *type, const char *name);

/* ---- listings that a client makes ------------------------------------------------------------ */

/*
 * Opens a listing of the keys of a bucket, as shard_dataset_open() does of a directory.
 *
 * url     s3://bucket/prefix/; the last slash may be missing
 * options as for shard_dataset_open(); order, sample and include apply
 * environment  variables for shardctl that override this process's variables: "NAME=value", or
 *         "NAME" to unset the variable; NULL ends the array. The values may be secret keys, and
 *         only shardctl gets them
 * round   processes of one job on this node that pass the same round > 0 have one listing. A
 *         process passes 1 at its first call for a prefix, 2 at its second call, and so on.
 *         0: the listing is for this call alone
 * since   ns of CLOCK_REALTIME: a time before the first call of any process of the program. A
 *         listing that was begun earlier is not used
 * out     gets the listing, the caller's, who ends it with shard_listing_close()
 */
int shard_dataset_open_s3(const char *url, const char *options, const char *const *environment,
                          uint64_t round, int64_t since, struct shard_listing **out, char *err,
                          size_t size);

/*
 * Opens a listing of names in memory, in the order of the names. Processes of one job on this node
 * that pass the same names have one listing. The listing is found by a hash of the names, so the
 * caller has to compare the names of the listing with its own.
 *
 * names   names[size] has a NUL behind each name; no name is empty or as long as a path can be
 * out     gets the listing, the caller's, who ends it with shard_listing_close()
 */
int shard_names_open(const char *names, size_t size, struct shard_listing **out, char *err,
                     size_t errsize);

/* ---- buckets of SHARD_DATASET ---------------------------------------------------------------- */

/* How the SHARD_ variables divide a dataset. */
struct shard_sharing {
  const char *strategy; /* "range", "stride" or "hash"; static storage */
  int seeded;           /* SHARD_SEED is set */
  int includes;         /* SHARD_INCLUDE is set */
  int has_listing;      /* SHARD_LISTING is set */
  int has_stats;        /* SHARD_STATS is set */
};

/* Copies the settings to out. */
void shard_sharing_get(struct shard_sharing *out);

/*
 * Reads SHARD_EPOCH from the environment. Called when a listing of a dataset begins at the root.
 *
 * epoch   gets the value of SHARD_EPOCH; if the variable is not set now, the value that was read
 *         last; -1: the variable was never set
 * Errors: -EINVAL: the value is bad; with a line in err[size]
 */
int shard_epoch_read(int64_t *epoch, char *err, size_t size);

/*
 * Prints the buckets of SHARD_DATASET, s3://bucket/prefix or gs://bucket/prefix, one a line.
 *
 * Returns the length.
 * Errors: -ERANGE: buf is too small
 */
ssize_t shard_buckets(char *buf, size_t size);

/*
 * Opens the listing of a bucket of SHARD_DATASET. All processes of the job on this node have one
 * listing. May start shardctl.
 *
 * url, environment, out  as for shard_dataset_open_s3()
 */
int shard_bucket_open(const char *url, const char *const *environment, struct shard_listing **out,
                      char *err, size_t size);

/*
 * Tells which keys are this rank's.
 *
 * listing of shard_bucket_open(); NULL under SHARD_STRATEGY=hash
 * epoch   of shard_epoch_read()
 * keys    `count` keys with a NUL behind each; a key's name in the dataset begins after `skip`
 *         bytes
 * every_name  0: a name that the listing does not have is no rank's, except a folder's marker and
 *         a name with U+FFFD. These names, and with 1 all names that the listing does not have,
 *         are of the rank that has the next name of the listing
 * dataset of shard_bucket_pass()
 * owned   gets 1 or 0 for each key; 1 for a key that does not match SHARD_INCLUDE
 * Errors: -EINVAL: a key lies in a table; the variables are bad or do not suit the listing; another
 *         negative errno: the listing cannot be read. With a line in err[size]
 */
int shard_bucket_owned(const struct shard_listing *listing, int64_t epoch, const char *keys,
                       size_t count, size_t skip, int every_name, int dataset, uint8_t *owned,
                       char *err, size_t size);

/*
 * Tells whether this rank's keys in an epoch are neighbours in the listing: a run of positions.
 *
 * begin, end  get the positions [*begin, *end) of the run
 * Returns 1; 0: the keys are not a run.
 * Errors: -EINVAL: there are too few keys for SHARD_REMAINDER, ...; with a line in err[size]
 */
int shard_bucket_run(const struct shard_listing *listing, int64_t epoch, uint64_t *begin,
                     uint64_t *end, char *err, size_t size);

/*
 * Notes for SHARD_STATS that this process lists a bucket of SHARD_DATASET in an epoch.
 *
 * listing of shard_bucket_open(); NULL under SHARD_STRATEGY=hash
 * Returns the dataset's number for shard_bucket_owned(); -1: no statistics are kept.
 */
int shard_bucket_pass(const char *url, const struct shard_listing *listing, int64_t epoch);

/* Notes for SHARD_STATS that this process has opened the object `name` of the dataset at `url`. */
void shard_bucket_opened(const char *url, const char *name);

/* ---- the view of this process ---------------------------------------------------------------- */

/* The view of SHARD_DATASET that this process gets, as SHARD_VIEW names it. */
enum shard_view { SHARD_VIEW_AUTO, SHARD_VIEW_OFF, SHARD_VIEW_GLOBAL, SHARD_VIEW_SHARD };

/* Returns the view that SHARD_VIEW asks for. */
enum shard_view shard_view_asked(void);

/*
 * Sets the view of this process from now on. Called when it is known whether the program divides
 * the dataset itself. With any view but SHARD_VIEW_SHARD, libc's listing calls return the whole
 * directory.
 */
void shard_view_set(enum shard_view view);

/* ---- statistics of a program that shards by itself --------------------------------------------
 */

/*
 * Notes for SHARD_STATS that the program reads the first `used` entries of a listing. The epoch of
 * an open is the rank's (shard_run_set_epoch()), else 1.
 *
 * root    the directory that the names lie below, or s3://bucket/prefix/, whose opens are noted by
 *         shard_bucket_opened()
 * needed  number of entries that the program's steps account for in an epoch
 * Errors: -ENOENT: no statistics are kept, or not of this dataset
 */
int shard_stats_dataset(const char *root, const struct shard_listing *listing, uint64_t used,
                        uint64_t needed);

/*
 * Notes the same as shard_stats_dataset() for a program that makes its names by counting, and reads
 * the first `used` of `entries` names.
 *
 * digest  64 hexadecimal digits, equal in processes that make the same names
 */
int shard_stats_names(const char *root, const char digest[65], uint64_t entries, uint64_t used,
                      uint64_t needed);

/* Returns the XXH64 of name[length], by which a log knows a path. */
uint64_t shard_stats_hash(const char *name, size_t length);

/* ---- what the processes of a rank share --------------------------------------------------------
 */

/*
 * Makes the page that the processes of this rank share. Called in the rank's main process. A forked
 * child shares the page; a child that is started anew does if its environment has
 * LIBSHARD_RUN=place. If this process has made a page, keeps the page, and ends all watching of
 * shard_run_watch().
 *
 * place   gets the value of LIBSHARD_RUN
 */
int shard_run_begin(char *place, size_t size);

/*
 * Counts from now on each open of a path prefix...suffix as an open of a kind.
 *
 * kind    0 or 1
 * prefix  ends in a slash
 * Errors: -EINVAL: there is no page, the page is full, or an argument is bad
 */
int shard_run_watch(unsigned kind, const char *prefix, const char *suffix);

/*
 * Returns the number of opens of a kind by all processes of the rank until now.
 * Errors: -ENOENT: this process has not made the page, or opens may be missing
 */
int64_t shard_run_opens(unsigned kind);

/* Sets the rank's epoch. Errors: -ENOENT: this process has not made the page. */
int shard_run_set_epoch(uint64_t epoch);

/* Returns the rank's epoch; 0: none was set. Errors: -ENOENT: this process does not have a page. */
int64_t shard_run_epoch(void);

/* Notes that a process has listed bucket number `bucket` of shard_buckets(), below 64. */
void shard_run_set_listed(unsigned bucket);

/*
 * Returns 1 if a process of the rank has listed bucket number `bucket` of shard_buckets(), else 0.
 * Errors: -ENOENT: this process has not made the page, or the number is 64 or more
 */
int shard_run_listed(unsigned bucket);

/* ---- variables and messages -------------------------------------------------------------------
 */

/*
 * Checks the SHARD_ variables.
 * Errors: -EINVAL: a variable is misspelt or has a bad value; with a line in err[size]
 */
int shard_config_check(char *err, size_t size);

/*
 * Prints the line of shard_config_check(), if there is one, and the consequence: once in a process,
 * and if SHARD_DATASET is not set, in one rank of a node only.
 */
void shard_config_complain(void);

/* The levels of SHARD_LOG. */
enum shard_log_level { SHARD_LOG_ERROR, SHARD_LOG_WARN, SHARD_LOG_INFO, SHARD_LOG_DEBUG };

/* Prints a line to stderr, if SHARD_LOG asks for the level. The text must not hold a secret. */
void shard_log(int level, const char *text);

/* ---- files that one process of a node makes and others map --------------------------------------
 */

/*
 * Prints the path of the cache directory, creates the directory if it is missing, and checks it.
 * Returns the length of the path.
 */
ssize_t shard_cache_dir(char *buf, size_t size, char *err, size_t errsize);

/* Bytes of the header of a kept file. The kept bytes follow the header. */
#define SHARD_KEPT_HEADER 4096
struct shard_kept;

/*
 * Opens a kept file of the cache, or makes an empty one. Waits while another process makes the
 * file, at most $SHARD_TIMEOUT seconds.
 *
 * key     32 hexadecimal digits, the name of the file
 * size    number of kept bytes
 * fd      gets the file, the caller's to close
 * making  gets NULL if the file is complete, by its size and checksum. Else the caller writes the
 *         kept bytes, and calls shard_kept_end()
 * Errors: -ETIMEDOUT, -ENOSPC, ..., with a line in err[errsize]
 */
int shard_kept_begin(const char *key, uint64_t size, int *fd, struct shard_kept **making, char *err,
                     size_t errsize);

/*
 * Ends the making of a kept file, and frees `making`.
 *
 * good    1: the file gets its checksum and its name; 0: the file is removed
 */
int shard_kept_end(struct shard_kept *making, int good, char *err, size_t errsize);

/*
 * Opens a kept file that is complete. Does not wait for a process that makes the file.
 *
 * key, size, fd  as for shard_kept_begin()
 * Errors: -ENOENT: no file; -EBADMSG: the file is damaged; ..., with a line in err[errsize]
 */
int shard_kept_open(const char *key, uint64_t size, int *fd, char *err, size_t errsize);

/* Removes the kept file of a key. A process that has the file mapped keeps its mapping. */
void shard_kept_remove(const char *key);

#pragma GCC visibility pop
