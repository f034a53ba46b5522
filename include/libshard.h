/* SPDX-License-Identifier: MIT */
/*
 * libshard.h - the API of libshard.so for C programs: read a listing, make one, and divide it among
 * the ranks of a job. The program links to libshard.so; it need not preload it.
 *
 * What holds for all functions, where nothing else is said:
 *
 *  - Return value: 0 or a count; a negative errno on failure. errno itself is left alone.
 *  - Strings: names are bytes without NUL, relative to the root of the dataset. Sizes of buffers
 *    and lengths are bytes; a size includes the NUL at the end, a length does not.
 *  - err[size] gets a line for people that names the path or variable at fault and the remedy. It
 *    ends with NUL, and is cut off if it is too long.
 *  - Threads: a struct shard_listing does not change. Any number of threads may use one at once.
 *  - Forks: a child may go on with what its parent has opened.
 *  - No function is async-signal-safe.
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

/* Returns the version of libshard, such as "0.1.0"; static storage. */
const char *shard_version(void);

/* ---- listings --------------------------------------------------------------------------- */

struct shard_listing;

/*
 * Opens a listing: maps the file and checks its header.
 *
 * file    its path. The file must not be cut or overwritten while it is open: that is a SIGBUS, or
 *         -EBADMSG where it is met
 * out     gets the listing, the caller's, who ends it with shard_listing_close()
 * Errors: -ENOENT, -EACCES, ... of open(2); -EBADMSG: no listing, or damaged or cut off;
 *         -EPROTONOSUPPORT: a listing of another version of the format; -ENOMEM
 */
int shard_listing_open(const char *file, struct shard_listing **out);

/* Unmaps and frees a listing, which may be NULL. Its cursors must not be used afterwards. */
void shard_listing_close(struct shard_listing *listing);

/* Returns the number of entries. */
uint64_t shard_listing_count(const struct shard_listing *listing);

/*
 * Copies the name at a position. Allocates nothing.
 *
 * i       0 <= i < count
 * buf     gets the name and a NUL
 * Returns the length of the name.
 * Errors: -EINVAL: i is past the end; -ERANGE: buf is too small, and nothing is copied; -EBADMSG:
 *         the block that holds the name is damaged
 */
ssize_t shard_listing_name(const struct shard_listing *listing, uint64_t i, char *buf, size_t size);

/*
 * Finds a name. Allocates nothing.
 *
 * Returns its position.
 * Errors: -ENOENT: the listing does not have it; -EBADMSG: a block on the way to it is damaged;
 *         -ENOTSUP: the listing keeps the order of a manifest
 */
int64_t shard_listing_find(const struct shard_listing *listing, const char *name);

/*
 * A cursor reads a listing in order. It is the caller's, its fields are private, and it needs no
 * clean-up. It must not be copied, and is for one thread at a time.
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

/*
 * Puts a cursor before a position of a listing.
 *
 * i       0 <= i <= count; count is the end
 * Errors: -EINVAL: i is past the end; -EBADMSG: damage
 */
int shard_listing_seek(struct shard_cursor *cursor, const struct shard_listing *listing,
                       uint64_t i);

/*
 * Reads the next name.
 *
 * name    gets its address; it ends with NUL, and is valid until the next call with this cursor
 * Returns its length, which is never 0; 0 at the end.
 * Errors: -EBADMSG: damage
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

/* Copies the facts of a listing to out. */
void shard_listing_info(const struct shard_listing *listing, struct shard_listing_info *out);

/*
 * Opens a listing of a directory, begun after this program's start: the node's cache of listings
 * has it. The n-th call of each of a job's processes, with the same directory and options, has one
 * listing: the first process that calls starts shardctl (posix_spawn), and the others wait, at most
 * $SHARD_TIMEOUT seconds. Where $SHARD_LISTING names a listing of the directory, it is that.
 *
 * dir     a path
 * options words separated by blanks, in any order:
 *   - order=path|basename   (default path)
 *   - depth=N               levels of directories to read, 0 = all (default); 1: `dir` alone
 *   - include=PATTERN[:...] fnmatch(3) patterns for basenames, by bytes; %XX for blanks and %
 *   - hidden=0|1            0: leave out names that begin with '.', directories too (default 1)
 *   - follow=0|1            1: walk through links to directories; needs depth=N (default 0)
 *   - exact=N               only entries at level N
 *   - attributes=0|1        1: keep d_type and d_ino, and the names that are not entries, such as
 *                           sub-directories; the shard view needs them (default 0)
 *   - sample=file|stem|directory   as SHARD_SAMPLE: a sample's files follow each other; needs
 *                           order=path (default file)
 *
 * out     gets the listing, the caller's, who ends it with shard_listing_close()
 * Errors: any errno, with a line in err[size]
 */
int shard_dataset_open(const char *dir, const char *options, struct shard_listing **out, char *err,
                       size_t size);

/* ---- the process's place in its job --------------------------------------------------------- */

struct shard_world {
  int rank, size;             /* of the job; -1 if unknown */
  int local_rank, local_size; /* on this node; -1 if unknown */
  char launcher[32];          /* "Open MPI", "SHARD_RANK", ...; "" if none was found */
};

/*
 * Tells this process's rank, by the launcher's environment.
 *
 * Errors: -ENOENT: there is no launcher, and out->rank is -1; -EINVAL: a variable is bad; another
 *         errno: the rank cannot be told now. With a line in err[size]
 */
int shard_world_get(struct shard_world *out, char *err, size_t size);

/*
 * Computes the positions [*begin, *end) of [0, n) that belong to a rank under the range strategy.
 * The ranks' numbers of positions differ by at most one. Pure.
 */
void shard_range(uint64_t n, uint32_t rank, uint32_t size, uint64_t *begin, uint64_t *end);

/*
 * Computes where position i of [0, n) goes in the shuffle of an epoch, and where it comes from: a
 * keyed permutation that is stored nowhere, the same in all processes. Pure.
 *
 * n       at most 2^62; i < n
 */
uint64_t shard_shuffle(uint64_t i, uint64_t n, uint64_t seed, uint64_t epoch);
uint64_t shard_shuffle_back(uint64_t i, uint64_t n, uint64_t seed, uint64_t epoch);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
