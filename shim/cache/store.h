/* SPDX-License-Identifier: MIT */
/*
 * store.h - which listing a call asks for, and where that lies in the node's cache: found there, or
 * put there. The names of the files are in filenames.h.
 *
 * Reading needs no lock: a listing never changes, and links are renamed into place. What puts a
 * listing there, or removes leftovers, holds the lock of its key (make.h); pinning does not.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "cache/filenames.h"
#include "cache/job.h"
#include "listing/options.h"

struct shard_listing;

enum shard_request_kind {
  SHARD_REQUEST_DIRECTORY, /* the names below `real` */
  SHARD_REQUEST_MANIFEST,  /* those of the text `origin` that lie below `real` */
  SHARD_REQUEST_BUCKET,    /* the keys below `origin`, for `real`, or for no directory */
  SHARD_REQUEST_OBJECT     /* `origin`, a listing or manifest, itself */
};

/*
 * Which listing is asked for: of what, with which options, for whom; and where it lies. Set up by
 * cache.c, and by fetch in named.c. Large: on the heap, for a host's thread may have a small stack.
 */
struct shard_request {
  enum shard_request_kind kind;
  const char *dir;       /* as the caller has it; NULL: there is none */
  char real[PATH_MAX];   /* the canonical directory; "": there is none */
  char origin[PATH_MAX]; /* s3:// prefix (with a slash at its end) or object, or manifest; or "" */
  struct stat identity;  /* of a manifest */
  char options_text[SHARD_OPTIONS_TEXT];
  bool for_job;                  /* all processes of the job keep one listing, */
  uint64_t round;                /* in each round one; 0: there are none */
  char job[SHARD_JOB_ROOM + 32]; /* "": not looked for */
  const char *pin;               /* processes of this job keep one listing; NULL: it is not known */
  const char *const *environment; /* for shardctl (host/builder.h); or NULL */
  int64_t since; /* a bucket's listing must be begun at this time (ns) or later; 0: see FRESH */
  int64_t asked; /* start of this call, ns; ages count from here: waiting makes nothing stale */
  /* What shard_store_locate() fills in. */
  char cache[PATH_MAX];
  char key[SHARD_CACHE_KEY];
  char job_key[SHARD_CACHE_KEY]; /* of a job's links: the manifest's path, the bucket's URL */
};

/* Whether names come from a bucket. */
static inline bool shard_request_is_remote(const struct shard_request *r) {
  return r->kind == SHARD_REQUEST_BUCKET || r->kind == SHARD_REQUEST_OBJECT;
}

/* What the listing says it is of. */
static inline const char *shard_request_source(const struct shard_request *r) {
  return shard_request_is_remote(r) ? r->origin : r->real;
}

/*
 * A bucket does not tell whether it has changed. Processes without a job, which no pin gives one
 * listing, share what is not older than this, unless `since` asks for a newer one.
 */
#define SHARD_STORE_FRESH 600 /* seconds */

/* Whether a file or link is not older than SHARD_STORE_FRESH. */
bool shard_store_is_fresh(const struct stat *st);

/* Fill in job and pin, if that has not been done and a job is known. 0, or a negative errno and
 * a line: it cannot be told now. */
int shard_store_find_job(struct shard_request *r, char *err, size_t size);

/* The number of a pin, for names of files; NULL: 0. */
uint64_t shard_store_pin_id(const char *pin);

/*
 * Find the cache directory, made if need be, and the request's keys there: hashes of all that the
 * listing depends on, and of the boot. So hosts that share the directory share no listing. 0, or a
 * negative errno and a line in err[size].
 */
int shard_store_locate(struct shard_request *r, char *err, size_t size);

/* The path of a name in the cache directory; malloc'd, NULL: no memory. */
char *shard_store_path(const struct shard_request *r, const char *name);

/* The path of the file of this kind with the request's key and this number (filenames.h). */
char *shard_store_file(const struct shard_request *r, enum shard_cache_kind kind, uint64_t number);

/* ---- finding ---- */

/* A listing of the cache, open, and its name there. */
struct shard_found {
  struct shard_listing *listing; /* NULL: none */
  char name[SHARD_CACHE_NAME];
};

enum shard_store_answer { SHARD_STORE_NONE, SHARD_STORE_CURRENT, SHARD_STORE_PINNED };

/*
 * Look for the listing of a request.
 *
 * PINNED: the one that the job began with, true or not. CURRENT: the newest, if it is still true;
 * never of a bucket for a job: a job ignores what earlier ones saw there.
 *
 * *found is the caller's, to be closed, if there is one. A negative errno and a line in err[size]:
 * it cannot be told.
 */
int shard_store_find(const struct shard_request *r, struct shard_found *found, char *err,
                     size_t size);

/* ---- putting ---- */

/*
 * Pin *found, unless another one is pinned, which *found is then. *first: it was the first. 0, or a
 * negative errno and a line in err[size], and *found is closed: another rank could not know which
 * one the job has.
 */
int shard_store_pin(const struct shard_request *r, struct shard_found *found, bool *first,
                    char *err, size_t size);

/*
 * Give a new listing, `file`, its name, and make it the current one. The file is gone in any case.
 * 0, or a negative errno and a line in err[size].
 */
int shard_store_install(const struct shard_request *r, const char *file, struct shard_found *found,
                        char *err, size_t size);

/* Make a symbolic link that appears at once, over an older one. 0, or a negative errno. */
int shard_store_link(const struct shard_request *r, const char *target, const char *name);

/* Remove what dead builders of this key have left, and the links of jobs of a month ago. */
void shard_store_remove_leftovers(const struct shard_request *r);

/* Warn: `what`, and the listing's digest. */
void shard_store_say_digest(const struct shard_request *r, const struct shard_listing *listing,
                            const char *what);
