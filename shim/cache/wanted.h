/* SPDX-License-Identifier: MIT */
/*
 * wanted.h - which listing is asked for: of what, with which options, for whom. Set up once by one
 * of the functions below, and never changed then.
 */
#ifndef SHARD_CACHE_WANTED_H
#define SHARD_CACHE_WANTED_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "cache/filenames.h"
#include "listing/options.h"

struct shard_listing;

enum shard_wanted_kind {
  SHARD_WANTED_DIRECTORY, /* the names below `real` */
  SHARD_WANTED_MANIFEST,  /* those of the text `origin` that lie below `real` */
  SHARD_WANTED_BUCKET,    /* the keys below `origin`, for `real`, or for no directory */
  SHARD_WANTED_OBJECT     /* `origin`, a listing or manifest, itself */
};

/* Large: on the heap, for a host's thread may have a small stack. */
struct shard_wanted {
  enum shard_wanted_kind kind;
  char real[PATH_MAX];   /* the canonical directory; "": there is none */
  char origin[PATH_MAX]; /* s3:// prefix (with a slash at its end) or object, or manifest; or "" */
  struct stat identity;  /* of a manifest */
  struct shard_options options;
  char options_text[SHARD_OPTIONS_TEXT]; /* the same */
  const char *job;                       /* identity of the job; NULL: none is known */
  const char *const *environment;        /* for shardctl (host/builder.h); or NULL */
  int64_t since; /* a bucket's listing must have begun then, ns; 0: it may be some minutes old */
  int64_t asked; /* start of this call, ns; age counts from here, so waiting makes nothing stale */
};

/* All return 0, or a negative errno and a line in err[size]. Texts are the caller's to keep. */

/* dir NULL: there is none. */
int shard_wanted_directory(struct shard_wanted *w, const char *dir, const char *job, char *err,
                           size_t size);
int shard_wanted_manifest(struct shard_wanted *w, const char *dir, const char *manifest,
                          const char *job, char *err, size_t size);
/* environment, since: see above. */
int shard_wanted_bucket(struct shard_wanted *w, const char *dir, const char *url, const char *job,
                        char *err, size_t size);
int shard_wanted_object(struct shard_wanted *w, const char *dir, const char *url, const char *job,
                        char *err, size_t size);

/* The words of shard_dataset_open(). */
int shard_wanted_parse(struct shard_wanted *w, const char *options, char *err, size_t size);

/* Whether names come from a bucket. */
bool shard_wanted_is_remote(const struct shard_wanted *w);

/* What the listing says it is of. */
const char *shard_wanted_source(const struct shard_wanted *w);

/* What messages call it: its directory, or where it comes from. */
const char *shard_wanted_label(const struct shard_wanted *w);

/*
 * Its key in the cache: a hash of all that the listing depends on. everywhere: one key, whatever
 * the manifest holds by now, and wherever the bucket is.
 */
void shard_wanted_key(const struct shard_wanted *w, bool everywhere, char key[SHARD_CACHE_KEY]);

/* Whether the manifest has changed since: part of it may have been read. */
bool shard_wanted_was_rewritten(const struct shard_wanted *w);

/*
 * A bucket does not tell whether it has changed. Ranks that no launcher has started, so that no job
 * keeps a listing for them, share one if they start within some minutes; unless it is said since
 * when it must have been made.
 */
#define SHARD_WANTED_FRESH 600 /* seconds */
bool shard_wanted_is_fresh(const struct shard_wanted *w, const struct shard_listing *listing);

/* Whether the listing was begun after the call that wants it. */
bool shard_wanted_is_new(const struct shard_wanted *w, const struct shard_listing *listing);

/* A number for a job; 0: of no job. */
uint64_t shard_wanted_job_id(const char *job);

#endif
