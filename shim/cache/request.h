/* SPDX-License-Identifier: MIT */
/*
 * request.h - which listing a call asks for, and where it lies in the cache.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/filenames.h"
#include "cache/job.h"
#include "listing/options.h"

enum shard_request_kind {
  SHARD_REQUEST_DIRECTORY, /* the names below `real` */
  SHARD_REQUEST_USER_LISTING,     /* the listing of `real` among what `list` names */
  SHARD_REQUEST_MANIFEST,  /* the names of the text `list` that lie below `real` */
  SHARD_REQUEST_NAMES,     /* `names` */
  SHARD_REQUEST_BUCKET     /* the keys below `origin`, for `real`, or for no directory */
};

/* Large: on the heap, for a host's thread may have a small stack. */
struct shard_request {
  enum shard_request_kind kind;
  const char *dir;       /* as the caller has it; NULL: there is none */
  char real[PATH_MAX];   /* the canonical directory; "": there is none */
  char origin[PATH_MAX]; /* the s3:// prefix, with a slash at its end; or "" */
  const char *list;      /* GIVEN, MANIFEST: what SHARD_LISTING names */
  const char *names;     /* NAMES: each with a NUL behind it */
  size_t names_size;
  bool own; /* `list` is this rank's or epoch's own, with no pattern */
  char options_text[SHARD_OPTIONS_TEXT];
  const char *const *environment; /* for shardctl (host/builder.h); or NULL */
  bool alone;
  uint64_t round;
  int64_t since;
  struct shard_job job;
  /* What shard_request_locate() fills in. */
  char cache[PATH_MAX];
  char key[SHARD_CACHE_KEY];
  char file[PATH_MAX]; /* the listing's path in the cache */
};

/* What the listing says it is of. */
static inline const char *shard_request_source(const struct shard_request *r) {
  return r->kind == SHARD_REQUEST_NAMES ? "names of a program" : *r->origin ? r->origin : r->real;
}

/*
 * Find the cache directory, made if need be; the job; and the request's KEY: a hash of the
 * directory's path, the options, the job and the boot, and of a bucket's place or the names. 0, or
 * a negative errno and a line in err[size].
 */
int shard_request_locate(struct shard_request *r, char *err, size_t size);

/* Print the path of a file of the cache into path[PATH_MAX]; number: a pid (filenames.h). */
void shard_request_path(const struct shard_request *r, enum shard_cache_kind kind, uint64_t number,
                        char path[PATH_MAX]);

/* Hash text[size] into two numbers, as a KEY is made. */
struct shard_request_hash {
  uint64_t a, b;
};
void shard_request_hash_add(struct shard_request_hash *h, const void *data, size_t size);
void shard_request_hash_print(const struct shard_request_hash *h, char key[SHARD_CACHE_KEY]);
