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
 *  - A listing is immutable. After shard_listing_open() any number of threads may use one
 *    struct shard_listing at once, and a forked child may go on using it.
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
 * Map the listing `file` read-only and check its header and tables.
 * On success *out is the caller's, to be given to shard_listing_close().
 * Errors: -ENOENT, -EACCES, ... of open(2); -EBADMSG if the file is not a listing, is damaged or
 * truncated; -EPROTONOSUPPORT if it is a listing of another format version; -ENOMEM.
 */
int shard_listing_open(const char *file, struct shard_listing **out);

/* Unmap. NULL is allowed. Cursors of this listing are dead afterwards. */
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
 * Copy names from position i on, each followed by NUL, as many as fit whole into buf[size] and at
 * most `most`. Returns how many, with the bytes used in *used; errors as shard_listing_name().
 */
ssize_t shard_listing_names(const struct shard_listing *listing, uint64_t i, size_t most, char *buf,
                            size_t size, size_t *used);

/*
 * Position of `name`, or -ENOENT if it is truly absent, -EBADMSG for damage, -ENOTSUP if the
 * listing has kept the order of a manifest. Allocates nothing.
 */
int64_t shard_listing_find(const struct shard_listing *listing, const char *name);

/*
 * Sequential reading. The caller owns the cursor; its fields are private. No clean-up needed; not
 * to be copied. One thread at a time.
 */
#define SHARD_NAME_MAX 32768
struct shard_table;
struct shard_position {
  const struct shard_table *table;
  const uint8_t *next, *end; /* inside the current block, or a run's record */
  uint64_t position;         /* of the name that comes next */
  uint64_t left;             /* names not yet decoded in the current block or run */
  uint64_t number;           /* of the name that comes next, if it is the first one of a run */
  uint64_t extent;           /* of the current block or run */
  uint32_t digits_end;       /* where the number of a run ends in its names; 0: a block */
  uint32_t length;           /* of the name in `name` */
  char *name;                /* room for the longest name of the listing, and a NUL */
};
struct shard_cursor {
  struct shard_position at;
  int error; /* sticky */
  char name[SHARD_NAME_MAX];
};

/* Put the cursor before position i (i == count: at the end). 0, -EINVAL or -EBADMSG. */
int shard_listing_seek(struct shard_cursor *cursor, const struct shard_listing *listing,
                       uint64_t i);

/*
 * Return the length of the next name and point *name at it (NUL-terminated, valid until the next
 * call with this cursor); 0 at the end (no name is empty); -EBADMSG for damage.
 */
ssize_t shard_listing_next(struct shard_cursor *cursor, const char **name);

/* Facts kept in the header. All sizes in bytes. */
struct shard_listing_info {
  uint64_t entries;
  uint64_t bytes;       /* size of the file */
  uint64_t directories; /* directories walked, the root included */
  uint64_t dirs_hidden; /* directories at the deepest level whose name matches `include`: they
                           are not entries, but a plain listing of their parent shows them */
  uint64_t dir_links;   /* links to directories that were not walked through */
  uint64_t duplicates;  /* basename order only: neighbours with an equal basename */
  uint32_t min_depth;   /* slashes in a name, least and most; 0 where there is no entry */
  uint32_t max_depth;
  uint32_t longest;       /* longest name */
  uint32_t block;         /* names in a block */
  uint32_t order;         /* 0: path, 1: basename, then path, 2: as it was given, 3: directory */
  uint32_t utf8;          /* 1 if every name is valid UTF-8 */
  uint32_t dotted;        /* 1 if some component of some name begins with '.' */
  uint8_t bytes_used[32]; /* bit b set: byte b occurs in some name */
  char suffix[64];        /* longest common suffix of the names, cut to 63 bytes */
  char digest[65];        /* SHA-256 of the names, each followed by NUL, in listing order; hex */
  const char *source;     /* canonical source; lives as long as the listing */
  const char *options;    /* canonical options it was built with; ditto */
  const char *file;       /* path given to shard_listing_open(); ditto */
};

void shard_listing_info(const struct shard_listing *listing, struct shard_listing_info *out);

/* ---- the node's cache of listings ---------------------------------------------------------- */

/*
 * Open the listing of directory `dir` from the cache ($SHARD_CACHE_DIR), building it first if
 * there is none or the directory has changed. One process per node builds (flock elects it and
 * starts shardctl), others wait, at most $SHARD_TIMEOUT seconds.
 *
 * options: words separated by blanks, in any order:
 *
 *   - order=path|basename   (default path)
 *   - depth=N               levels of directories to read, 0 = all (default); 1: `dir` alone
 *   - include=PATTERN[:...] fnmatch(3) patterns for basenames, by bytes; %XX for blanks and %
 *   - hidden=0|1            0: leave out what begins with '.', directories too (default 1)
 *   - follow=0|1            1: walk through links to directories (default 0)
 *   - exact=N               entries at level N only
 *   - attributes=0|1        1: with d_type and d_ino, and sub-directories and other names that are
 *                           not entries, as the shard view needs them (default 0)
 *
 * On failure a negative errno, and in err[size] one line for people that names the path or
 * variable at fault and the remedy. Thread-safe. May fork a process (posix_spawn).
 */
int shard_dataset_open(const char *dir, const char *options, struct shard_listing **out, char *err,
                       size_t size);

/*
 * The same for the keys of a bucket below s3://bucket/prefix/ (a slash at its end is added); of
 * `options`, order and include apply.
 *
 * environment: variables for the shardctl that lists, over this process's own: "NAME=value", or
 * "NAME" for one that it must not have; NULL ends them. They get to it in its environment alone and
 * are kept nowhere, so they may hold keys.
 *
 * A bucket does not tell that it has changed: it is listed anew, after this call has begun. But
 * with round > 0, where the job is known, all its processes on this node that pass the same round
 * have one listing, which was begun at `since` (ns of CLOCK_REALTIME, 0: now) or later; so each
 * process passes 1, 2, ... for the times that it asks for a prefix, and a time that no process has
 * asked before.
 */
int shard_dataset_open_s3(const char *url, const char *options, const char *const *environment,
                          uint64_t round, int64_t since, struct shard_listing **out, char *err,
                          size_t size);

/* ---- the process's place in its job --------------------------------------------------------- */

struct shard_world {
  int rank, size;             /* of the job; -1 if unknown */
  int local_rank, local_size; /* on this node; -1 if unknown */
  char launcher[32];          /* "Open MPI", "SHARD_RANK", ...; "" if none was found */
};

/*
 * Read the launcher's environment. 0, or -EINVAL with a line in err[size] that names the variable
 * at fault, or -ENOENT (and out->rank -1) if there is no launcher.
 */
int shard_world_get(struct shard_world *out, char *err, size_t size);

/* ---- the view of this process -----------------------------------------------------------------
 */

enum shard_view { SHARD_VIEW_AUTO, SHARD_VIEW_OFF, SHARD_VIEW_GLOBAL, SHARD_VIEW_SHARD };

/* The word of a view, as SHARD_VIEW takes it; static storage. NULL past the last one. */
const char *shard_view_word(enum shard_view view);

/* What SHARD_VIEW asks for. */
enum shard_view shard_view_asked(void);

/*
 * Say which view this process has from now on (an adapter calls this when it recognises, or fails
 * to recognise, a program that shards by itself). Anything but SHARD_VIEW_SHARD makes every
 * listing call of libc return the whole directory.
 */
void shard_view_set(enum shard_view view);

/*
 * Positions [*begin, *end) of [0, n) that belong to `rank` of `size` under the range strategy:
 * sizes differ by at most one.
 */
void shard_range(uint64_t n, uint32_t rank, uint32_t size, uint64_t *begin, uint64_t *end);

/*
 * For SHARD_STATS: a program that shards by itself reads the first `used` entries of `listing`,
 * which lie below the directory `root`, from epoch `epoch` on; and: it begins an epoch. -ENOENT,
 * and nothing is done, where no statistics are kept.
 */
int shard_stats_dataset(const char *root, const struct shard_listing *listing, uint64_t used,
                        uint64_t epoch);
void shard_stats_epoch(uint64_t epoch);

/* 0, or -EINVAL and the line to show if a SHARD_ variable is misspelt or has a bad value. */
int shard_config_check(char *err, size_t size);

/* Print that line and what follows from it, once in a process and by one rank of a node. */
void shard_config_complain(void);

/* Print one line to stderr as libshard does, if SHARD_LOG asks for this level.
 * 0 error, 1 warn, 2 info, 3 debug. The text must hold no secret. */
void shard_log(int level, const char *text);

/* The cache directory, created and checked. Length, or a negative errno with a line in err. */
ssize_t shard_cache_dir(char *buf, size_t size, char *err, size_t errsize);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
