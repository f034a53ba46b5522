/* SPDX-License-Identifier: MIT */
/*
 * libshard.h - the public API of libshard.so.
 *
 * Usable by a program that links build/libshard.so without preloading it, and by the in-process
 * CPython adapter. Conventions:
 *
 *  - Functions that can fail return 0 (or a count) on success and a negative errno on failure;
 *    errno itself is left alone.
 *  - Names are bytes without NUL; they are paths relative to the root of the dataset.
 *  - A listing is immutable. Any number of threads may use one struct shard_listing at once, and
 *    a forked child may go on using it.
 *  - "A line in err[size]" is text for people that names the path or variable at fault and the
 *    remedy. It is NUL-terminated, and cut off if it is too long.
 *  - None of the functions is async-signal-safe.
 */
#ifndef LIBSHARD_H
#define LIBSHARD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define SHARD_API_VERSION 1

/* A string such as "0.1.0"; static storage. */
const char *shard_version(void);

/* ---- listings --------------------------------------------------------------------------- */

struct shard_listing;

/*
 * Open the listing `file`, map it, and check its header. The file must not be cut or overwritten
 * while it is open: that is a SIGBUS, or -EBADMSG where it is met.
 * On success *out is the caller's, who ends it with shard_listing_close().
 * Errors: -ENOENT, -EACCES, ... of open(2); -EBADMSG if the file is not a listing, is damaged or
 * truncated; -EPROTONOSUPPORT if it is a listing of another format version; -ENOMEM.
 */
int shard_listing_open(const char *file, struct shard_listing **out);

/* Unmap and free. NULL is allowed. Cursors of this listing must not be used afterwards. */
void shard_listing_close(struct shard_listing *listing);

/* Number of entries. */
uint64_t shard_listing_count(const struct shard_listing *listing);

/*
 * Copy the name at position i (0 <= i < count) and a NUL into buf[size].
 * Returns the length without the NUL; -EINVAL if i is past the end; -ERANGE if buf is too small
 * (nothing is copied); -EBADMSG if the block that holds it is damaged. Allocates nothing.
 */
ssize_t shard_listing_name(const struct shard_listing *listing, uint64_t i, char *buf, size_t size);

/*
 * Position of `name`. -ENOENT if the listing does not have it; -EBADMSG if a block on the way to it
 * is damaged; -ENOTSUP if the listing keeps the order of a manifest. Allocates nothing.
 */
int64_t shard_listing_find(const struct shard_listing *listing, const char *name);

/*
 * For libshard's own Python code, with the interpreter's lock held: give a class of this name, a
 * type object, its methods of C. 0: this interpreter cannot have them, or there is an exception.
 */
int shard_adapter_quicken(void *type, const char *name);

/*
 * Sequential reading. The caller owns the cursor; its fields are private. It needs no clean-up, and
 * must not be copied. One thread at a time.
 */
#define SHARD_NAME_MAX 32768
struct shard_table;
struct shard_position {
  const struct shard_table *table;
  const uint8_t *next, *end; /* rest of the current block, or the current run's record */
  uint64_t position;         /* of the next name */
  uint64_t left;             /* names of the current block or run that are not decoded yet */
  uint64_t number;           /* number in a run's next name, until one is decoded */
  uint64_t extent;           /* the extent of the current block or run */
  uint32_t digits_end;       /* where the number ends in a run's names; 0: in a block */
  uint32_t length;           /* bytes in `name`; 0: no name of the block or run decoded yet */
  char *name;                /* room for the longest name of the listing, and a NUL */
};
struct shard_cursor {
  struct shard_position at;
  int error; /* the first one; later calls return it again */
  char name[SHARD_NAME_MAX];
};

/* Put the cursor before position i (count: at the end). 0; -EINVAL past the end; -EBADMSG. */
int shard_listing_seek(struct shard_cursor *cursor, const struct shard_listing *listing,
                       uint64_t i);

/*
 * Point *name at the next name, NUL-terminated and valid until the next call with this cursor.
 * Returns its length; 0 at the end (no name is empty); -EBADMSG for damage.
 */
ssize_t shard_listing_next(struct shard_cursor *cursor, const char **name);

/* The facts in a listing's header. All sizes in bytes. */
struct shard_listing_info {
  uint64_t entries;
  uint64_t bytes;       /* size of the file */
  uint64_t directories; /* directories walked, the root included */
  uint64_t dirs_hidden; /* directories at the deepest level that match `include`; they are not
                           entries, but a plain listing of their parent shows them */
  uint64_t dir_links;   /* links to directories; the walk did not follow them */
  uint64_t duplicates;  /* basename order only: neighbours with an equal basename */
  uint32_t min_depth;   /* fewest slashes in a name; 0 if there is no entry */
  uint32_t max_depth;   /* most slashes in a name; ditto */
  uint32_t longest;     /* longest name */
  uint32_t order; /* 0: path, 1: basename, then path, 2: as the manifest, 3: directory, 4: sample */
  uint32_t utf8;  /* 1 if every name is valid UTF-8 */
  uint32_t dotted;        /* 1 if some component of some name begins with '.' */
  uint8_t bytes_used[32]; /* bit b set: byte b occurs in some name */
  char suffix[64];        /* longest common suffix of the names, cut to 63 bytes */
  char digest[65];        /* SHA-256 of the names, each followed by NUL, in listing order; hex */
  const char *source;     /* canonical directory, text or URL; lives as long as the listing */
  const char *options;    /* canonical options it was built with; ditto */
  const char *file;       /* path given to shard_listing_open(); ditto */
};

void shard_listing_info(const struct shard_listing *listing, struct shard_listing_info *out);

/* ---- the node's cache of listings ---------------------------------------------------------- */

/*
 * Open a listing of directory `dir`, begun after this program's start. The n-th call of each of a
 * job's processes, with the same `dir` and options, has one: the first process that calls starts
 * shardctl, and the others wait, at most $SHARD_TIMEOUT seconds. Where $SHARD_LISTING names a
 * listing of `dir`, it is that. *out is the caller's, who ends it with shard_listing_close().
 *
 * options: words separated by blanks, in any order:
 *
 *   - order=path|basename   (default path)
 *   - depth=N               levels of directories to read, 0 = all (default); 1: `dir` alone
 *   - include=PATTERN[:...] fnmatch(3) patterns for basenames, by bytes; %XX for blanks and %
 *   - hidden=0|1            0: leave out what begins with '.', directories too (default 1)
 *   - follow=0|1            1: walk through links to directories; needs depth=N (default 0)
 *   - exact=N               only entries at level N
 *   - attributes=0|1        1: keep d_type and d_ino, and the names that are not entries, such as
 *                           sub-directories; the shard view needs them (default 0)
 *   - sample=file|stem|directory   as SHARD_SAMPLE: a sample's files follow each other; needs
 *                           order=path (default file)
 *
 * On failure a negative errno and a line in err[size]. Thread-safe. May start a process
 * (posix_spawn).
 */
int shard_dataset_open(const char *dir, const char *options, struct shard_listing **out, char *err,
                       size_t size);

/*
 * The same for the keys of a bucket below s3://bucket/prefix/ (the last slash may be missing). Of
 * `options`, order, sample and include apply.
 *
 * environment: variables that shardctl gets over this process's own: "NAME=value", or "NAME" to
 * unset it; NULL ends the array. They may hold secret keys: they go into shardctl's environment and
 * nowhere else.
 *
 * Processes of one job on this node that pass the same round > 0 have one listing, begun at `since`
 * (ns of CLOCK_REALTIME) or later; round 0: the listing is this call's own. A process passes round
 * 1 when it asks for a prefix first, 2 when it asks again, and so on; and as `since` a time before
 * which no process has asked.
 */
int shard_dataset_open_s3(const char *url, const char *options, const char *const *environment,
                          uint64_t round, int64_t since, struct shard_listing **out, char *err,
                          size_t size);

/*
 * The same for names in memory, in just this order, whatever they are: names[size] has a NUL behind
 * each, and no name is empty or as long as a path can be. Processes of one job on this node that
 * pass the same names have one listing; it is found by a hash of them, so the caller compares.
 */
int shard_names_open(const char *names, size_t size, struct shard_listing **out, char *err,
                     size_t errsize);

/* ---- buckets that a program lists by a client of its own ------------------------------------ */

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
 * The epoch that SHARD_EPOCH tells now, read from the environment: for a listing that begins at a
 * dataset's root. *epoch is -1 if it was never set; what was read last if it is gone. 0, or -EINVAL
 * and a line in err[size].
 */
int shard_epoch_read(int64_t *epoch, char *err, size_t size);

/*
 * Print the buckets of SHARD_DATASET, s3://bucket/prefix or gs://bucket/prefix, into buf[size], a
 * line each. Returns the length without the NUL; -ERANGE if buf is too small.
 */
ssize_t shard_buckets(char *buf, size_t size);

/*
 * Open the listing of a bucket's dataset, s3://bucket/prefix/: one for all processes of the job on
 * this node. environment as for shard_dataset_open_s3(). *out is the caller's. On failure a
 * negative errno and a line in err[size]. May start a process (posix_spawn).
 */
int shard_bucket_open(const char *url, const char *const *environment, struct shard_listing **out,
                      char *err, size_t size);

/*
 * Which of `count` keys are this rank's in an epoch, shard_epoch_read()'s: owned[i] is 1 or 0. Each
 * key ends with NUL, and its name in the dataset begins after `skip` bytes. listing:
 * shard_bucket_open()'s; NULL under SHARD_STRATEGY=hash. A name that the listing does not have is
 * nobody's; but a folder's marker, or with every_name any such name, goes to the owner of the next
 * name. dataset: shard_bucket_pass()'s. 0, or a negative errno and a line in err[size].
 */
int shard_bucket_owned(const struct shard_listing *listing, int64_t epoch, const char *keys,
                       size_t count, size_t skip, int every_name, int dataset, uint8_t *owned,
                       char *err, size_t size);

/*
 * Whether this rank's keys in an epoch are a run, the positions [*begin, *end) of the listing: 1,
 * or 0 if they are not; or a negative errno and a line in err[size]: there are too few keys for
 * SHARD_REMAINDER.
 */
int shard_bucket_run(const struct shard_listing *listing, int64_t epoch, uint64_t *begin,
                     uint64_t *end, char *err, size_t size);

/*
 * For SHARD_STATS: this process begins to list the dataset, or goes on, in this epoch; returns its
 * number for shard_bucket_owned(), -1 if no statistics are kept. And: it has opened an object, by
 * its name in the dataset.
 */
int shard_bucket_pass(const char *url, const struct shard_listing *listing, int64_t epoch);
void shard_bucket_opened(const char *url, const char *name);

/* ---- the process's place in its job --------------------------------------------------------- */

struct shard_world {
  int rank, size;             /* of the job; -1 if unknown */
  int local_rank, local_size; /* on this node; -1 if unknown */
  char launcher[32];          /* "Open MPI", "SHARD_RANK", ...; "" if none was found */
};

/*
 * Read the launcher's environment. 0; -EINVAL if a variable is bad; -ENOENT, and out->rank is -1,
 * if there is no launcher; another negative errno if it cannot be told now. Errors put a line
 * in err[size].
 */
int shard_world_get(struct shard_world *out, char *err, size_t size);

/* ---- the view of this process -----------------------------------------------------------------
 */

enum shard_view { SHARD_VIEW_AUTO, SHARD_VIEW_OFF, SHARD_VIEW_GLOBAL, SHARD_VIEW_SHARD };

/* The view that SHARD_VIEW asks for. */
enum shard_view shard_view_asked(void);

/*
 * Set this process's view from now on. An adapter calls this once it knows whether the program
 * shards by itself. With any view but SHARD_VIEW_SHARD, libc's listing calls return the whole
 * directory.
 */
void shard_view_set(enum shard_view view);

/*
 * The positions [*begin, *end) of [0, n) that belong to `rank` of `size` under the range strategy.
 * The ranks' numbers of positions differ by at most one. Pure.
 */
void shard_range(uint64_t n, uint32_t rank, uint32_t size, uint64_t *begin, uint64_t *end);

/*
 * For SHARD_STATS. shard_stats_dataset(): a program that shards by itself reads the first `used`
 * entries of `listing`, the names below directory `root`, or below s3://bucket/prefix/: of objects
 * shard_bucket_opened() tells. `needed`: how many of them its steps account for in an epoch. 0, or
 * -ENOENT if no statistics are kept. shard_stats_names(): the same of a program that makes its
 * names by counting, the first `used` of `entries`; digest: 64 hexadecimal digits by which
 * processes know that they make the same. The program's epoch is the rank's
 * (shard_run_set_epoch()), else 1. shard_stats_hash(): the XXH64 of a path, by which a log knows
 * it.
 */
int shard_stats_dataset(const char *root, const struct shard_listing *listing, uint64_t used,
                        uint64_t needed);
int shard_stats_names(const char *root, const char digest[65], uint64_t entries, uint64_t used,
                      uint64_t needed);
uint64_t shard_stats_hash(const char *name, size_t length);

/*
 * What the processes of a rank share: for a program that shards by itself its epoch, and how many
 * files of its datasets they have opened; for clients of buckets, which buckets they have listed.
 *
 * shard_run_begin() makes it in the rank's main process, and forgets the folders of an earlier
 * call. A child that is forked shares it; one that is started anew does if its environment has
 * LIBSHARD_RUN=mark. shard_run_watch(): an open of prefix...suffix counts as one of `kind`, 0 or 1.
 * shard_run_opens(): all opens of a kind until now; -ENOENT if some may be missing.
 * shard_run_epoch(): the epoch set last, 0 if none was; -ENOENT if this process shares nothing.
 * shard_run_set_listed(): bucket number `bucket` of shard_buckets(), below 64, has been listed.
 * shard_run_listed(): whether it has, 0 or 1; -ENOENT if this process did not make what is shared.
 * The others return 0 or a negative errno.
 */
int shard_run_begin(char *mark, size_t size);
int shard_run_watch(unsigned kind, const char *prefix, const char *suffix);
int64_t shard_run_opens(unsigned kind);
int shard_run_set_epoch(uint64_t epoch);
int64_t shard_run_epoch(void);
void shard_run_set_listed(unsigned bucket);
int shard_run_listed(unsigned bucket);

/*
 * Where position i of [0, n) goes in the shuffle of an epoch, and where it comes from: a keyed
 * permutation that is stored nowhere, the same in all processes. i < n, n at most 2^62. Pure.
 */
uint64_t shard_shuffle(uint64_t i, uint64_t n, uint64_t seed, uint64_t epoch);
uint64_t shard_shuffle_back(uint64_t i, uint64_t n, uint64_t seed, uint64_t epoch);

/* 0, or -EINVAL and a line in err[size] if a SHARD_ variable is misspelt or has a bad value. */
int shard_config_check(char *err, size_t size);

/* Print that line and its consequence, once in a process and by one rank of a node. */
void shard_config_complain(void);

enum shard_log_level { SHARD_LOG_ERROR, SHARD_LOG_WARN, SHARD_LOG_INFO, SHARD_LOG_DEBUG };

/*
 * Print one line to stderr as libshard does, if SHARD_LOG asks for this level:
 * 0 error, 1 warn, 2 info, 3 debug. The text must hold no secret. Thread-safe.
 */
void shard_log(int level, const char *text);

/*
 * Print the path of the cache directory into buf[size], and create and check the directory. Returns
 * the length of the path, or a negative errno and a line in err[errsize].
 */
ssize_t shard_cache_dir(char *buf, size_t size, char *err, size_t errsize);

/*
 * What one process of a node makes and the others map: `size` bytes of the cache, told by a key of
 * 32 hexadecimal digits. They lie in a file from SHARD_KEPT_HEADER on, and have a checksum.
 *
 * shard_kept_begin() waits until no other process makes them, SHARD_TIMEOUT seconds at most. Then
 * *fd is the file, the caller's to close. *making NULL: the file is whole. Else the caller fills
 * it, and calls shard_kept_end() before it closes *fd: good 1 gives the file its name, 0 drops it.
 * shard_kept_open(): the file if it is there and whole, without waiting. shard_kept_remove(): a
 * process that has it mapped keeps it. 0, or a negative errno and a line in err[errsize]:
 * -ETIMEDOUT, -ENOENT, -EBADMSG.
 */
#define SHARD_KEPT_HEADER 4096
struct shard_kept;
int shard_kept_begin(const char *key, uint64_t size, int *fd, struct shard_kept **making, char *err,
                     size_t errsize);
int shard_kept_end(struct shard_kept *making, int good, char *err, size_t errsize);
int shard_kept_open(const char *key, uint64_t size, int *fd, char *err, size_t errsize);
void shard_kept_remove(const char *key);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
