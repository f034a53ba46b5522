/* SPDX-License-Identifier: MIT */
/*
 * request.h - finds the KEY of the listing that a call asks for, and the listing's path in the
 * cache.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/filenames.h"
#include "cache/job.h"
#include "listing/options.h"

/* What the listing holds. */
enum shard_request_kind {
  SHARD_REQUEST_DIRECTORY,    /* the names below `real` */
  SHARD_REQUEST_USER_LISTING, /* the names of the user's listing of `real` or `origin` */
  SHARD_REQUEST_MANIFEST,     /* the names of the text `list` that lie below `real` */
  SHARD_REQUEST_NAMES,        /* `names` */
  SHARD_REQUEST_BUCKET        /* the keys below `origin`, for `real`, or for no directory */
};

/* For the heap: the struct is large, and a thread of the host may have a small stack. */
struct shard_request {
  enum shard_request_kind kind;
  const char *dir;       /* the directory as the caller has named it; NULL: no directory */
  char real[PATH_MAX];   /* the canonical path of the directory; "": no directory */
  char origin[PATH_MAX]; /* the s3:// prefix, with a slash at its end; or "" */
  const char *list;      /* USER_LISTING, MANIFEST: the value of SHARD_LISTING, or one item of it */
  const char *names;     /* NAMES: a NUL follows each name */
  size_t names_size;
  bool own; /* `list` is one item, for this rank or epoch alone, and has no pattern */
  char options_text[SHARD_OPTIONS_TEXT];
  const char *const *environment; /* for shardctl (host/builder.h); or NULL */
  bool alone;                     /* this field and the next two: as in cache.h */
  uint64_t round;
  int64_t since;
  /* shard_request_locate() sets the fields from here on. */
  struct shard_job job;
  char cache[PATH_MAX]; /* the cache directory */
  char key[SHARD_CACHE_KEY];
  char file[PATH_MAX]; /* the listing's path in the cache */
};

/*
 * Returns the name of the request's source: the bucket's prefix or the canonical directory, which
 * the listing has as its source too; for NAMES a text for messages.
 */
static inline const char *shard_request_source(const struct shard_request *r) {
  return r->kind == SHARD_REQUEST_NAMES ? "names of a program" : *r->origin ? r->origin : r->real;
}

/*
 * Finds the cache directory, which is created if it is missing, the job, the request's KEY and the
 * path of the listing. The KEY is a hash of the format's version, the directory's path, the
 * options, `list`, `names`, the round, the job and the boot; for a bucket also of the prefix and of
 * the variables that tell its endpoint, region and profile.
 * Errors: a negative errno and a line in err[size]. -EINVAL: the cache directory lies inside the
 * dataset.
 */
int shard_request_locate(struct shard_request *r, char *err, size_t size);

/*
 * Prints the path of a file of the request's KEY.
 * number: the PID in the name of a NEW, else 0.
 */
void shard_request_path(const struct shard_request *r, enum shard_cache_kind kind, uint64_t number,
                        char path[PATH_MAX]);

/* The two 64-bit hashes that make a KEY; zeros at first. */
struct shard_request_hash {
  uint64_t a, b;
};

/* Adds data[size] to the hashes. */
void shard_request_hash_add(struct shard_request_hash *h, const void *data, size_t size);

/* Prints the hashes as a KEY. */
void shard_request_hash_print(const struct shard_request_hash *h, char key[SHARD_CACHE_KEY]);
