/* SPDX-License-Identifier: MIT */
/*
 * cache.c - how a call gets its listing:
 *
 *   set_up()   what is asked for
 *   named.h    what SHARD_LISTING names, if it is the one; else
 *   store.h    what this job has already, true or not; else what is current, and true; else
 *   make()     wait for the lock, look again, and make it; and pin it.
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
#include "base/kernel.h"
#include "cache/job.h"
#include "cache/judge.h"
#include "cache/lock.h"
#include "cache/make.h"
#include "cache/named.h"
#include "cache/store.h"
#include "config/config.h"
#include "config/launcher.h"
#include "config/pattern.h"
#include "libshard.h"
#include "listing/listing.h"

#define TICK_MS 20    /* a file's ctime may be so old when it is set */
#define SKEW_MS 10000 /* between a server's clock and this host's */
#define REWRITES 10   /* of a manifest while it is read */

/* The remedy where hosts may differ. */
#define GIVE_ONE                                                                                   \
  "make one listing for all by shardctl index before the job starts, and name it in SHARD_LISTING"

static int no_memory(char *err, size_t size) {
  shard_error_set(err, size, -ENOMEM, "out of memory");
  return -ENOMEM;
}

/* ---- what is asked for ---- */

/*
 * A rank that is alone has nobody to agree with: the programs of its batch script, one after the
 * other, have what is there when they begin. A bucket does not tell what is there, and
 * what SHARD_LISTING names is the user's choice.
 */
static bool is_alone(const struct shard_request *r) {
  struct shard_world world;
  char ignored[300];
  return r->kind == SHARD_REQUEST_DIRECTORY && !shard_config()->listing && !shard_config()->job &&
         shard_world_get(&world, ignored, sizeof(ignored)) == 0 && world.size == 1;
}

static int set_up(struct shard_request *r, const struct shard_cache_source *s, char *err,
                  size_t size) {
  r->asked = shard_clock_real_ns();
  r->dir = s->dir;
  r->environment = s->environment;
  if (s->dir && !realpath(s->dir, r->real)) {
    return shard_error_set(err, size, -errno, "cannot find directory '%.300s': %s", s->dir,
                           strerror(errno));
  }
  int rc = 0;
  struct shard_options options = {
      .order = SHARD_ORDER_DIRECTORY, .hidden = true, .attributes = true};
  if (s->list && shard_pattern_is_manifest(s->list)) {
    r->kind = SHARD_REQUEST_MANIFEST;
  } else if (s->options) {
    options = *s->options;
  } else {
    rc = shard_options_parse(&options, s->words, err, size);
  }
  shard_options_format(&options, r->options_text, sizeof(r->options_text));
  if (s->url && !s->list) {
    size_t n = strlen(s->url);
    const char *slash = n > 0 && s->url[n - 1] == '/' ? "" : "/"; /* a folder there */
    r->kind = SHARD_REQUEST_BUCKET;
    if (n + strlen(slash) >= sizeof(r->origin)) {
      return shard_error_set(err, size, -ENAMETOOLONG, "SHARD_DATASET='%.200s...' is too long",
                             s->url);
    }
    sprintf(r->origin, "%s%s", s->url, slash);
  }
  r->for_job = s->for_job && !is_alone(r);
  r->round = s->round;
  if (rc == 0 && s->anew) {
    rc = shard_store_find_job(r, err, size);
    r->since = r->pin && s->since > 0 ? s->since : r->asked;
  }
  return rc;
}

/* Take the manifest's identity, once a later change is sure to change it. While it is written all
 * the time that is never: see check_unchanged(). */
static int identify(struct shard_request *r, const char *manifest, char *err, size_t size) {
  struct timespec now, seen = {0};
  for (int k = 0; k < 50; k++) {
    if (!realpath(manifest, r->origin) ||
        shard_kernel_stat(AT_FDCWD, r->origin, &r->identity, 0) != 0) {
      return shard_error_set(err, size, -errno,
                             "SHARD_LISTING='%.300s': %s; make it with shardctl manifest", manifest,
                             strerror(errno));
    }
    const struct timespec *at = &r->identity.st_ctim;
    shard_clock_read(CLOCK_REALTIME, &now);
    int64_t age = (now.tv_sec - at->tv_sec) * 1000 + (now.tv_nsec - at->tv_nsec) / 1000000;
    /* Old by a server's clock, too; or seen for so long. */
    if (age >= SKEW_MS || (k > 0 && shard_clock_same(seen, *at))) {
      break;
    }
    seen = *at;
    nanosleep(&(struct timespec){0, TICK_MS * 1000000L}, NULL);
  }
  return S_ISREG(r->identity.st_mode)
             ? 0
             : shard_error_set(err, size, -EINVAL, "SHARD_LISTING='%.300s' is not a regular file",
                               manifest);
}

/* 0, or -EAGAIN if the manifest has changed since: *found, closed then, may be of a part of it. */
static int check_unchanged(const struct shard_request *r, struct shard_found *found, char *err,
                           size_t size) {
  const struct stat *was = &r->identity;
  struct stat st;
  if (r->kind != SHARD_REQUEST_MANIFEST ||
      (shard_kernel_stat(AT_FDCWD, r->origin, &st, 0) == 0 && st.st_ino == was->st_ino &&
       st.st_size == was->st_size && shard_clock_same(st.st_mtim, was->st_mtim) &&
       shard_clock_same(st.st_ctim, was->st_ctim))) {
    return 0;
  }
  shard_listing_close(found->listing);
  found->listing = NULL;
  return shard_error_set(err, size, -EAGAIN,
                         "SHARD_LISTING='%.300s' is being written; write it elsewhere, and rename "
                         "it when it is complete",
                         r->origin);
}

/* ---- making one ---- */

/* Under the lock, and there is none. */
static int make_one(const struct shard_request *r, struct shard_making *m,
                    struct shard_found *found, char *err, size_t size) {
  char *file = shard_store_file(r, SHARD_CACHE_NEW, (uint64_t)getpid());
  int rc = file ? shard_make(r, m, file, err, size) : no_memory(err, size);
  rc = rc ? rc : shard_store_install(r, file, found, err, size);
  free(file);
  return rc;
}

/* *first: pinned before others. */
static int make(const struct shard_request *r, struct shard_found *found, bool *first, char *err,
                size_t size) {
  struct shard_making m = {.lock = -1};
  int rc = shard_make_lock(r, &m.lock, &m.deadline, err, size);
  rc = rc ? rc : shard_store_find(r, found, err, size); /* another process may have finished */
  rc = rc == 0 ? make_one(r, &m, found, err, size) : rc;
  /* That may be why it failed. */
  int changed = rc == -ETIMEDOUT ? 0 : check_unchanged(r, found, err, size);
  rc = changed ? changed : rc < 0 ? rc : 0;
  if (rc == 0 && r->pin) {
    rc = shard_store_pin(r, found, first, err, size);
  }
  shard_lock_release(m.lock);
  return rc;
}

/* ---- what is said where ranks may have different ones ---- */

/* A job keeps what it began with, and says so if that is not what is there now. */
static void tell_of_change(const struct shard_request *r, const struct shard_found *found) {
  if (shard_request_is_remote(r)) {
    return;
  }
  if (strncmp(found->name, r->key, strlen(r->key)) != 0) {
    shard_store_say_digest(r, found->listing,
                           "has a manifest that was written anew since this job began; all ranks "
                           "keep the first one");
  } else if (!shard_judge_is_true(found->listing, r->real, false)) {
    int64_t since;
    char what[400] = "has changed since this job listed it; all ranks keep the listing";
    if (shard_launcher_is_on_hosts(&since)) {
      snprintf(what, sizeof(what),
               "has changed since this job listed it on this host, whose ranks keep the listing; "
               "other hosts may have another one: " GIVE_ONE);
    }
    shard_store_say_digest(r, found->listing, what);
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
static void tell_of_hosts(const struct shard_request *r, const struct shard_found *found) {
  int64_t since;
  char what[800], host[HOST_NAME_MAX + 1] = "";
  if (r->kind != SHARD_REQUEST_DIRECTORY || !found->listing ||
      !shard_launcher_is_on_hosts(&since) || newest_change(found->listing) <= since) {
    return;
  }
  gethostname(host, sizeof(host) - 1);
  snprintf(what, sizeof(what),
           "changed after this job had started on host '%.64s', and other hosts may have listed it "
           "before that: compare their digests (SHARD_LOG=info, or shardctl verify), or " GIVE_ONE,
           host);
  shard_store_say_digest(r, found->listing, what);
}

/* Where no job is known, which its first process on the host could speak for: rank 0 does, once. */
static bool speaks_for_host(void) {
  static atomic_flag spoken = ATOMIC_FLAG_INIT;
  struct shard_world world;
  char ignored[300];
  return shard_world_get(&world, ignored, sizeof(ignored)) == 0 && world.local_rank <= 0 &&
         !atomic_flag_test_and_set(&spoken);
}

/* ---- the way ---- */

/* The listing from the cache, made if need be. compared: hosts need not be told of. */
static int open_cached(struct shard_request *r, bool compared, struct shard_listing **out,
                       char *err, size_t size) {
  struct shard_found found = {.listing = NULL};
  bool first = false;
  int rc = shard_store_locate(r, err, size);
  rc = rc ? rc : shard_store_find(r, &found, err, size);
  if (rc == SHARD_STORE_PINNED) {
    tell_of_change(r, &found);
    rc = 0;
  } else if (rc > 0) {
    rc = check_unchanged(r, &found, err, size);
    rc = rc == 0 && r->pin ? shard_store_pin(r, &found, &first, err, size) : rc;
  } else if (rc == 0) {
    rc = make(r, &found, &first, err, size);
  }
  if (rc == 0 && !compared && (r->pin ? first : speaks_for_host())) {
    tell_of_hosts(r, &found);
  }
  *out = found.listing;
  return rc;
}

/* Let a message about a file of the cache name the object that it is. */
static void name_object(const char *file, const char *url, char *err, size_t size) {
  char *at = strstr(err, file), *tail = at ? strdup(at + strlen(file)) : NULL;
  if (tail) {
    snprintf(at, size - (size_t)(at - err), "%.300s%s", url, tail);
  }
  free(tail);
}

static int open_manifest(struct shard_request *r, const char *manifest, struct shard_listing **out,
                         char *err, size_t size) {
  char *file = malloc(PATH_MAX);
  if (!file) {
    return no_memory(err, size);
  }
  int got = shard_named_get(r, manifest, file, err, size), rc = got ? got : -EAGAIN;
  for (int tries = 0; tries < REWRITES && rc == -EAGAIN; tries++) {
    rc = identify(r, file, err, size);
    rc = rc == 0 ? open_cached(r, false, out, err, size) : rc;
  }
  if (got == 0 && rc != 0) {
    name_object(file, manifest, err, size);
  }
  free(file);
  return rc == -EAGAIN ? -EIO : rc;
}

static int open_listing(struct shard_request *r, const struct shard_cache_source *s,
                        struct shard_listing **out, char *err, size_t size) {
  const char *named = s->list ? s->list : shard_config()->listing;
  /* An object is got once for a job. */
  int rc = named && strstr(named, "://") ? shard_store_find_job(r, err, size) : 0;
  if (rc != 0) {
    return rc;
  }
  if (r->kind == SHARD_REQUEST_MANIFEST) {
    return open_manifest(r, s->list, out, err, size);
  }
  if (s->list) {
    return shard_named_open_own(r, s->list, out, err, size);
  }
  rc = shard_config()->listing ? shard_named_open(r, out, err, size) : 0;
  return rc == 0 ? open_cached(r, s->compared, out, err, size) : rc < 0 ? rc : 0;
}

int shard_cache_open(const struct shard_cache_source *s, struct shard_listing **out, char *err,
                     size_t size) {
  int saved = errno;
  struct shard_request *r = calloc(1, sizeof(*r));
  int rc = r ? set_up(r, s, err, size) : no_memory(err, size);
  rc = rc ? rc : open_listing(r, s, out, err, size);
  free(r);
  errno = saved;
  return rc;
}

int shard_dataset_open(const char *dir, const char *options, struct shard_listing **out, char *err,
                       size_t size) {
  /* DLIO's ranks compare what they have, unless each is a world of its own. */
  const struct shard_cache_source source = {
      .dir = dir, .words = options, .compared = shard_config()->view != SHARD_VIEW_SHARD};
  return shard_cache_open(&source, out, err, size);
}

int shard_dataset_open_s3(const char *url, const char *options, const char *const *environment,
                          uint64_t round, int64_t since, struct shard_listing **out, char *err,
                          size_t size) {
  const struct shard_cache_source source = {.url = url,
                                            .words = options,
                                            .environment = environment,
                                            .for_job = round > 0,
                                            .round = round,
                                            .anew = true,
                                            .since = since};
  return shard_cache_open(&source, out, err, size);
}
