/* SPDX-License-Identifier: MIT */
/*
 * cache.c - how a call gets its listing:
 *
 *   what SHARD_LISTING names (prebuilt.h), if it is the one; else
 *   what this job has already, true or not; else
 *   what is current, and true; else
 *   elected (elect.h): look again, and make it (produce.h), or take rank 0's (first.h); and pin it.
 *
 * Whoever has a listing mapped, or its versioned path, keeps exactly that listing.
 */
#include "cache/cache.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/filesystem.h"
#include "cache/elect.h"
#include "cache/entry.h"
#include "cache/fetch.h"
#include "cache/first.h"
#include "cache/given.h"
#include "cache/prebuilt.h"
#include "cache/produce.h"
#include "cache/stream.h"
#include "config/config.h"
#include "config/launcher.h"
#include "config/listings.h"
#include "config/pattern.h"
#include "libshard.h"
#include "listing/listing.h"

/* The remedies where hosts may differ. */
#define GIVE_ONE "SHARD_LISTING with SHARD_LISTING_BUILD=first give all hosts one listing"
#define GIVE_EACH "SHARD_LISTING name a folder, which gives all hosts one listing of each dataset"

#define REWRITES 10 /* of a manifest while it is read */

/* One call. On the heap, with room for every path: a host's thread may have a small stack. */
struct call {
  struct shard_wanted wanted;
  struct shard_entry entry;
  struct shard_first first;
  bool compared; /* the caller sees to it that all hosts have the same */
  char cache[PATH_MAX];
  char *err;
  size_t size;
};

static struct call *new_call(char *err, size_t size) {
  struct call *c = calloc(1, sizeof(*c));
  if (!c) {
    shard_error_set(err, size, -ENOMEM, "out of memory");
    return NULL;
  }
  c->first.rank = -1;
  c->err = err;
  c->size = size;
  return c;
}

/* ---- from the cache ---- */

/* rc, or -EAGAIN if *found may be of a part of the manifest only. */
static int check_unchanged(struct call *c, int rc, struct shard_found *found) {
  if (!shard_wanted_was_rewritten(&c->wanted)) {
    return rc;
  }
  if (rc == 0) {
    shard_listing_close(found->listing);
    found->listing = NULL;
  }
  return shard_error_set(c->err, c->size, -EAGAIN,
                         "SHARD_LISTING='%.300s' is being written; write it elsewhere, and rename "
                         "it when it is complete",
                         c->wanted.origin);
}

/* Under the lock, and nothing is ready. */
static int obtain(struct call *c, const struct shard_first_got *got, int lock, int64_t deadline,
                  struct shard_found *found) {
  const struct shard_entry *e = &c->entry;
  if (got->file) {
    return shard_entry_install(e, got->file, found, c->err, c->size);
  }
  if (got->listing) {
    return shard_first_take(e, got->listing, found, c->err, c->size);
  }
  if (got->taken) {
    return shard_error_set(c->err, c->size, -EAGAIN,
                           "the listing of '%.300s' has gone from '%.300s' while it was waited for",
                           shard_wanted_source(&c->wanted), c->cache);
  }
  return c->first.rank == 0 && !c->first.object
             ? shard_first_share(&c->first, e, lock, deadline, found, c->err, c->size)
             : shard_produce_listing(e, lock, deadline, c->first.object ? c->first.listing : NULL,
                                     found, c->err, c->size);
}

/* Take the lock, or find that another process has finished meanwhile. Pins; *first: before others.
 */
static int build_or_wait(struct call *c, struct shard_found *found, bool *first) {
  const char *job = c->wanted.job, *pinned = job ? job : c->first.object ? c->first.listing : NULL;
  struct shard_first_got got = {.lock = -1};
  int lock = -1;
  int64_t deadline = 0;
  bool waits = c->first.rank > 0;
  int rc = waits ? shard_first_await(&c->first, &c->entry, job, &got, c->err, c->size) : 0;
  rc = rc ? rc : shard_elect(&c->entry, &lock, &deadline, c->err, c->size);
  if (rc == -ETIMEDOUT && waits && c->first.object && lock >= 0) {
    shard_first_timed_out(&c->first, &c->entry, c->err, c->size);
  }
  if (rc == 0) {
    if (!shard_first_find_ready(&c->first, &c->entry, job, found)) {
      rc = obtain(c, &got, lock, deadline, found);
    }
    rc = check_unchanged(c, rc, found);
    if (rc == 0 && pinned) {
      *first = shard_entry_pin(&c->entry, pinned, found);
    }
  }
  shard_first_clear(&got);
  shard_elect_release(lock);
  return rc;
}

/*
 * Whether all hosts have the listing from SHARD_LISTING, by SHARD_LISTING_BUILD=first: a file that
 * is of another dataset, or of this one by another path, is left alone, and each host lists for
 * itself.
 */
static bool is_first_shared(const struct call *c) {
  const struct shard_wanted *w = &c->wanted;
  struct shard_listing *l;
  if (c->first.rank < 0 || c->first.object || shard_listing_open(c->first.listing, &l) != 0) {
    return c->first.rank >= 0;
  }
  bool ours = shard_prebuilt_serves(l, shard_wanted_source(w), &w->options);
  shard_listing_close(l);
  return ours;
}

/* What to do where hosts may differ. */
static const char *get_remedy(const struct call *c) {
  return c->first.rank >= 0 ? GIVE_EACH : GIVE_ONE;
}

/* A job keeps what it began with, and says so if that is not what is there now. */
static void tell_of_change(const struct call *c, const struct shard_found *found) {
  if (shard_wanted_is_remote(&c->wanted)) {
    return;
  }
  if (strncmp(found->name, c->entry.key, strlen(c->entry.key)) != 0) {
    shard_entry_say_digest(&c->entry, found->listing,
                           "has a manifest that was written anew since this job began; all ranks "
                           "keep the first one");
  } else if (!shard_prebuilt_is_true(found->listing, c->wanted.real)) {
    int64_t since;
    bool numbered;
    char what[400] = "has changed since this job listed it; all ranks keep the listing";
    if (!is_first_shared(c) && shard_launcher_is_on_hosts(&since, &numbered)) {
      snprintf(what, sizeof(what),
               "has changed since this job listed it on this host, whose ranks keep the listing; "
               "other hosts may have another one: let %s",
               get_remedy(c));
    }
    shard_entry_say_digest(&c->entry, found->listing, what);
  }
}

/* When the newest directory of a listing was changed, ns since 1970. */
static int64_t newest_change(const struct shard_listing *l) {
  int64_t newest = 0;
  const uint8_t *pos = NULL;
  struct shard_dir_entry d = SHARD_DIR_ENTRY(l);
  while (shard_listing_dir(l, &pos, &d)) {
    int64_t changed = d.id.ctime_sec * 1000000000LL + d.id.ctime_nsec;
    newest = changed > newest ? changed : newest;
  }
  return newest;
}

/*
 * Each host of a job lists for itself. A directory that was changed after the job's start may have
 * been changed between two hosts' listings, and nothing tells one host what another one has: so it
 * is said. What was changed before is the same everywhere.
 */
static void tell_of_hosts(const struct call *c, const struct shard_found *found) {
  int64_t since;
  bool numbered;
  char what[400], host[HOST_NAME_MAX + 1] = "";
  bool other = c->compared || c->wanted.kind != SHARD_WANTED_DIRECTORY || !found->listing;
  if (other || !shard_launcher_is_on_hosts(&since, &numbered) ||
      newest_change(found->listing) <= since || is_first_shared(c) ||
      (numbered && shard_filesystem_is_shared(c->cache))) { /* then the job has one listing */
    return;
  }
  gethostname(host, sizeof(host) - 1);
  snprintf(what, sizeof(what),
           "changed after this job had started on host '%.64s', and other hosts may have listed it "
           "before that: compare their digests (SHARD_LOG=info, or shardctl verify), or let %s",
           host, get_remedy(c));
  shard_entry_say_digest(&c->entry, found->listing, what);
}

/* Where no job is known, which its first process on the host could speak for: rank 0 does, once. */
static bool speaks_for_host(void) {
  static atomic_flag spoken = ATOMIC_FLAG_INIT;
  struct shard_world world;
  char ignored[300];
  return shard_world_get(&world, ignored, sizeof(ignored)) == 0 && world.local_rank <= 0 &&
         !atomic_flag_test_and_set(&spoken);
}

/* The listing from the cache, built if need be. */
static int open_cached(struct call *c, struct shard_listing **out) {
  struct shard_found found = {.listing = NULL};
  const char *job = c->wanted.job;
  bool first = false;
  int rc = shard_entry_locate(&c->entry, &c->wanted, c->cache, c->err, c->size);
  c->entry.any_options = c->first.rank >= 0;
  if (rc != 0) {
    return rc;
  }
  if (job && shard_entry_find_pinned(&c->entry, job, &found)) {
    tell_of_change(c, &found);
  } else if (shard_first_find_ready(&c->first, &c->entry, job, &found)) {
    rc = check_unchanged(c, 0, &found);
    first = rc == 0 && job && shard_entry_pin(&c->entry, job, &found);
  } else {
    rc = build_or_wait(c, &found, &first);
  }
  if (rc == 0) {
    if (job ? first : speaks_for_host()) {
      tell_of_hosts(c, &found);
    }
    *out = found.listing;
  }
  return rc;
}

/* ---- SHARD_LISTING ---- */

/* Whether it can be had at all in this way. */
static int check_given(const struct call *c, const struct shard_config *config) {
  if (shard_pattern_is_manifest(c->first.listing) || shard_pattern_has(config->listing, 'r') ||
      shard_pattern_has(config->listing, 'e')) {
    return shard_error_set(c->err, c->size, -EINVAL,
                           "SHARD_LISTING='%.300s' gives ranks lists of their own, which is for "
                           "the shard view; here all ranks need one listing (shardctl index)",
                           config->listing);
  }
  if (config->listing_first && c->wanted.kind == SHARD_WANTED_BUCKET && !*c->wanted.real) {
    return shard_error_set(c->err, c->size, -EINVAL,
                           "SHARD_LISTING_BUILD=first is not for a bucket, which does not tell "
                           "whether the listing that is there is old; make it with shardctl index");
  }
  return 0;
}

/* An object that was made beforehand. 1: *out is open. 0: it is of another directory or kind. */
static int open_given_object(struct call *c, const char *dir, struct shard_listing **out) {
  struct shard_wanted *w = &c->wanted;
  char *url = strdup(c->first.listing), *file = malloc(PATH_MAX);
  int rc = url && file ? shard_fetch(dir, url, w->job, file, PATH_MAX, c->err, c->size)
                       : shard_error_set(c->err, c->size, -ENOMEM, "out of memory");
  if (rc == 0) {
    rc = shard_prebuilt_open(file, url, shard_wanted_source(w), &w->options, out, c->err, c->size);
    if (rc < 0) {
      shard_fetch_rename(file, url, c->err, c->size);
    }
  }
  free(url);
  free(file);
  return rc;
}

/* With SHARD_LISTING_BUILD=first, a file, and no job is known: no process can tell that another
 * one has taken it already. 1: *out is open. 0: it is of another directory or kind. */
static int share_file_directly(struct call *c, int rank, struct shard_listing **out) {
  const struct shard_wanted *w = &c->wanted;
  const char *file = c->first.listing, *source = shard_wanted_source(w);
  if (rank > 0) {
    int rc = shard_prebuilt_await(file, source, &w->options, NULL, out, c->err, c->size);
    return rc != 0 ? rc : shard_first_refuse(&c->first, w, c->err, c->size);
  }
  int rc = shard_prebuilt_try(file, source, &w->options, out);
  if (rc >= 0) {
    return rc > 0 ? rc : shard_first_refuse(&c->first, w, c->err, c->size);
  }
  rc = open_cached(c, out);
  if (rc == 0) {
    rc = shard_prebuilt_put(*out, file, c->err, c->size);
    if (rc != 0) {
      shard_listing_close(*out);
      *out = NULL;
    }
  }
  return rc ? rc : 1;
}

/* What SHARD_LISTING names. 1: *out is open. 0: it is of another directory or kind, or the cache is
 * to be asked first. */
static int open_given(struct call *c, const char *dir, struct shard_listing **out) {
  const struct shard_config *config = shard_config();
  const struct shard_wanted *w = &c->wanted;
  char *file = c->first.listing;
  struct shard_world world;
  enum shard_given_kind kind;
  int rc = shard_given_find(w, dir, config->listing_first, &kind, file, sizeof(c->first.listing),
                            c->err, c->size);
  rc = rc ? rc : check_given(c, config);
  if (rc != 0) {
    return rc;
  }
  if (kind == SHARD_GIVEN_AMONG) {
    return shard_given_open_among(w, dir, out, c->err, c->size);
  }
  c->first.strict = kind == SHARD_GIVEN_OWN;
  bool object = shard_listings_is_object(file);
  if (!config->listing_first) {
    return object ? open_given_object(c, dir, out)
                  : shard_prebuilt_open(file, file, shard_wanted_source(w), &w->options, out,
                                        c->err, c->size);
  }
  rc = shard_world_get(&world, c->err, c->size);
  if (rc != 0) {
    return rc != -ENOENT
               ? rc
               : shard_error_set(c->err, c->size, -EINVAL,
                                 "SHARD_LISTING_BUILD=first: no rank is known; set SHARD_RANK and "
                                 "SHARD_SIZE");
  }
  if (w->job || object) {
    c->first.object = object;
    c->first.rank = world.rank;
    return 0; /* once it is clear that the cache has none for the job */
  }
  return share_file_directly(c, world.rank, out);
}

/* What SHARD_LISTING names, or the cache's. dir: as the caller has it; NULL: none. */
static int open_wanted(struct call *c, const char *dir, const char *options,
                       struct shard_listing **out) {
  int rc = shard_wanted_parse(&c->wanted, options, c->err, c->size);
  if (rc == 0) {
    rc = shard_config()->listing ? open_given(c, dir, out) : 0;
    rc = rc == 0 ? open_cached(c, out) : rc < 0 ? rc : 0;
  }
  return rc;
}

/* ---- calls ---- */

static int open_directory(const char *dir, const char *options, const char *job, bool compared,
                          struct shard_listing **out, char *err, size_t size) {
  int saved = errno;
  struct call *c = new_call(err, size);
  int rc = c ? shard_wanted_directory(&c->wanted, dir, job, err, size) : -ENOMEM;
  if (rc == 0) {
    c->compared = compared;
    rc = open_wanted(c, dir, options, out);
  }
  free(c);
  errno = saved;
  return rc;
}

int shard_dataset_open(const char *dir, const char *options, struct shard_listing **out, char *err,
                       size_t size) {
  /* DLIO's ranks compare what they have, unless each is a world of its own. */
  return open_directory(dir, options, NULL, shard_config()->view != SHARD_VIEW_SHARD, out, err,
                        size);
}

int shard_cache_open(const char *dir, const char *options, const char *job,
                     struct shard_listing **out, char *err, size_t size) {
  return open_directory(dir, options, job, false, out, err, size);
}

static int open_bucket(const char *dir, const char *url, const char *options,
                       const char *const *environment, const char *job, struct shard_listing **out,
                       char *err, size_t size) {
  int saved = errno;
  struct call *c = new_call(err, size);
  int rc = c ? shard_wanted_bucket(&c->wanted, dir, url, job, err, size) : -ENOMEM;
  if (rc == 0) {
    c->wanted.environment = environment;
    rc = open_wanted(c, dir, options, out);
  }
  free(c);
  errno = saved;
  return rc;
}

int shard_cache_open_bucket(const char *dir, const char *url, const char *options, const char *job,
                            struct shard_listing **out, char *err, size_t size) {
  return open_bucket(dir, url, options, NULL, job, out, err, size);
}

int shard_cache_open_keys(const char *url, const char *options, const char *const *environment,
                          const char *job, struct shard_listing **out, char *err, size_t size) {
  return open_bucket(NULL, url, options, environment, job, out, err, size);
}

/* The job and the round; malloc'd. NULL: the job is not known. */
static char *round_of_job(uint64_t round) {
  char *job = round > 0 ? malloc(SHARD_LAUNCHER_JOB_SIZE + 32) : NULL;
  if (job && shard_launcher_job(job, SHARD_LAUNCHER_JOB_SIZE)) {
    sprintf(job + strlen(job), "\nround %llu", (unsigned long long)round);
    return job;
  }
  free(job);
  return NULL;
}

int shard_dataset_open_s3(const char *url, const char *options, const char *const *environment,
                          uint64_t round, int64_t since, struct shard_listing **out, char *err,
                          size_t size) {
  int saved = errno;
  struct call *c = new_call(err, size);
  char *job = c ? round_of_job(round) : NULL;
  int rc = c ? shard_wanted_bucket(&c->wanted, NULL, url, job, err, size) : -ENOMEM;
  if (rc == 0) {
    c->wanted.environment = environment;
    c->wanted.since = job && since > 0 ? since : shard_clock_real_ns();
    rc = open_wanted(c, NULL, options, out);
  }
  free(job);
  free(c);
  errno = saved;
  return rc;
}

int shard_cache_open_manifest(const char *dir, const char *manifest, const char *job,
                              struct shard_listing **out, char *err, size_t size) {
  int saved = errno;
  struct call *c = new_call(err, size);
  int rc = c ? -EAGAIN : -ENOMEM;
  for (int tries = 0; tries < REWRITES && rc == -EAGAIN; tries++) {
    rc = shard_wanted_manifest(&c->wanted, dir, manifest, job, err, size);
    rc = rc == 0 ? open_cached(c, out) : rc;
  }
  free(c);
  errno = saved;
  return rc == -EAGAIN ? -EIO : rc;
}

/* ---- streams ---- */

/* Where a job reads; malloc'd, NULL: nowhere yet, or it cannot go on there. */
static char *find_stream(const struct call *c) {
  struct stat st;
  char name[SHARD_CACHE_NAME], target[SHARD_CACHE_NAME];
  const char *job = c->wanted.job;
  time_t now = time(NULL);
  shard_cache_name_print(SHARD_CACHE_STREAM, c->entry.key, shard_wanted_job_id(job), name);
  char *link = shard_entry_path(&c->entry, name), *base = NULL;
  ssize_t n = link ? readlink(link, target, sizeof(target) - 1) : -1;
  target[n > 0 ? n : 0] = 0;
  if (n > 0 && !strchr(target, '/') && lstat(link, &st) == 0 && st.st_uid == geteuid()) {
    base = shard_entry_path(&c->entry, target);
  }
  free(link);
  /* Without a job it gets old. */
  bool young = shard_wanted_job_id(job) != 0 ||
               (base && st.st_mtim.tv_sec <= now && st.st_mtim.tv_sec > now - SHARD_WANTED_FRESH);
  if (base && (shard_stream_get_state(base) == SHARD_STREAM_BROKEN || !young)) {
    free(base);
    base = NULL;
  }
  return base;
}

/* Begin a stream, and let the job read there. The lock is ours. */
static int begin_stream(struct call *c, int lock, int64_t deadline, char **base) {
  uint64_t nonce = (uint64_t)shard_clock_real_ns() ^ (uint64_t)getpid() << 40;
  char target[SHARD_CACHE_NAME], name[SHARD_CACHE_NAME];
  shard_cache_name_print(SHARD_CACHE_PART, c->entry.key, nonce, target);
  *base = shard_entry_path(&c->entry, target);
  struct shard_production *p = calloc(1, sizeof(*p));
  int rc = -ENOMEM;
  if (!*base || !p) {
    shard_error_set(c->err, c->size, rc, "out of memory");
  } else {
    p->entry = &c->entry;
    p->lock = lock;
    p->deadline = deadline;
    rc = shard_produce_stream(p, *base, c->err, c->size);
    if (rc == 0) {
      shard_cache_name_print(SHARD_CACHE_STREAM, c->entry.key, shard_wanted_job_id(c->wanted.job),
                             name);
      rc = shard_entry_link(&c->entry, target, name);
      if (rc != 0) {
        shard_error_set(c->err, c->size, rc, "cannot write to the cache directory '%.300s': %s",
                        c->cache, strerror(-rc));
      }
    }
  }
  free(p);
  return rc;
}

int shard_cache_open_stream(const char *dir, const char *url, const char *options, const char *job,
                            struct shard_stream **out, char *err, size_t size) {
  int saved = errno, lock = -1;
  int64_t deadline;
  char *base = NULL;
  struct call *c = new_call(err, size);
  int rc = c ? shard_wanted_bucket(&c->wanted, dir, url, job, err, size) : -ENOMEM;
  rc = rc ? rc : shard_wanted_parse(&c->wanted, options, err, size);
  rc = rc ? rc : shard_entry_locate(&c->entry, &c->wanted, c->cache, err, size);
  if (rc == 0 && !(base = find_stream(c))) {
    rc = shard_elect(&c->entry, &lock, &deadline, err, size);
    if (rc == 0 && !(base = find_stream(c))) {
      rc = begin_stream(c, lock, deadline, &base);
    }
    shard_elect_release(lock);
  }
  if (rc == 0) {
    rc = shard_stream_open(base, c->wanted.origin, c->wanted.options_text, out);
    rc = rc ? shard_error_set(err, size, rc, "out of memory") : 0;
  }
  free(base);
  free(c);
  errno = saved;
  return rc;
}
