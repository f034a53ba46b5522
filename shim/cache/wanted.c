/* SPDX-License-Identifier: MIT */
#include "cache/wanted.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fnv.h"
#include "host/builder.h"
#include "listing/codec.h"
#include "listing/listing.h"

#define TICK_MS 20    /* a file's ctime may be so old when it is set */
#define SKEW_MS 10000 /* between a server's clock and this host's */

/* ---- what is wanted ---- */

static bool same_time(struct timespec a, struct timespec b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static int init_wanted(struct shard_wanted *w, enum shard_wanted_kind kind, const char *dir,
                       const char *job, char *err, size_t size) {
  memset(w, 0, sizeof(*w));
  w->kind = kind;
  w->job = job;
  w->asked = shard_clock_real_ns();
  return !dir || realpath(dir, w->real)
             ? 0
             : shard_error_set(err, size, -errno, "cannot find directory '%.300s': %s", dir,
                               strerror(errno));
}

int shard_wanted_directory(struct shard_wanted *w, const char *dir, const char *job, char *err,
                           size_t size) {
  return init_wanted(w, SHARD_WANTED_DIRECTORY, dir, job, err, size);
}

/* Take the manifest's identity, once a later change is sure to change it. While it is written all
 * the time that is never: see shard_wanted_was_rewritten(). */
static int identify(struct shard_wanted *w, const char *manifest, char *err, size_t size) {
  struct timespec now, seen = {0};
  for (int k = 0; k < 50; k++) {
    if (!realpath(manifest, w->origin) || stat(w->origin, &w->identity) != 0) {
      return shard_error_set(err, size, -errno,
                             "SHARD_LISTING='%.300s': %s; make it with shardctl manifest", manifest,
                             strerror(errno));
    }
    const struct timespec *at = &w->identity.st_ctim;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age = (now.tv_sec - at->tv_sec) * 1000 + (now.tv_nsec - at->tv_nsec) / 1000000;
    /* Old by a server's clock, too; or seen for so long. */
    if (age >= SKEW_MS || (k > 0 && same_time(seen, *at))) {
      break;
    }
    seen = *at;
    nanosleep(&(struct timespec){0, TICK_MS * 1000000L}, NULL);
  }
  return S_ISREG(w->identity.st_mode)
             ? 0
             : shard_error_set(err, size, -EINVAL, "SHARD_LISTING='%.300s' is not a regular file",
                               manifest);
}

int shard_wanted_manifest(struct shard_wanted *w, const char *dir, const char *manifest,
                          const char *job, char *err, size_t size) {
  int rc = init_wanted(w, SHARD_WANTED_MANIFEST, dir, job, err, size);
  w->options =
      (struct shard_options){.order = SHARD_ORDER_DIRECTORY, .hidden = true, .attributes = true};
  shard_options_format(&w->options, w->options_text, sizeof(w->options_text));
  return rc ? rc : identify(w, manifest, err, size);
}

int shard_wanted_bucket(struct shard_wanted *w, const char *dir, const char *url, const char *job,
                        char *err, size_t size) {
  size_t n = strlen(url);
  const char *slash = n > 0 && url[n - 1] == '/' ? "" : "/"; /* a folder there */
  int rc = init_wanted(w, SHARD_WANTED_BUCKET, dir, job, err, size);
  if (rc == 0 &&
      (size_t)snprintf(w->origin, sizeof(w->origin), "%s%s", url, slash) >= sizeof(w->origin)) {
    rc = shard_error_set(err, size, -ENAMETOOLONG, "SHARD_DATASET='%.200s...' is too long", url);
  }
  return rc;
}

int shard_wanted_object(struct shard_wanted *w, const char *dir, const char *url, const char *job,
                        char *err, size_t size) {
  int rc = init_wanted(w, SHARD_WANTED_OBJECT, dir, job, err, size);
  if (rc == 0 && (size_t)snprintf(w->origin, sizeof(w->origin), "%s", url) >= sizeof(w->origin)) {
    rc = shard_error_set(err, size, -ENAMETOOLONG, "SHARD_LISTING='%.200s...' is too long", url);
  }
  return rc;
}

int shard_wanted_parse(struct shard_wanted *w, const char *options, char *err, size_t size) {
  int rc = shard_options_parse(&w->options, options, err, size);
  if (rc == 0) {
    shard_options_format(&w->options, w->options_text, sizeof(w->options_text));
  }
  return rc;
}

/* ---- its names ---- */

bool shard_wanted_is_remote(const struct shard_wanted *w) {
  return w->kind == SHARD_WANTED_BUCKET || w->kind == SHARD_WANTED_OBJECT;
}

const char *shard_wanted_source(const struct shard_wanted *w) {
  return shard_wanted_is_remote(w) ? w->origin : w->real;
}

const char *shard_wanted_label(const struct shard_wanted *w) {
  return *w->real ? w->real : w->origin;
}

/* What shardctl will have for a variable; NULL: nothing. */
static const char *builders_value(const struct shard_wanted *w, const char *name) {
  size_t n = strlen(name);
  const char *own = shard_builder_find_variable(w->environment, name, n);
  return !own ? getenv(name) : own[n] ? own + n + 1 : NULL;
}

/* What says where a bucket is: one of the same name elsewhere is another one. No keys. */
static const char *const places[] = {
    "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",   "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_REGION",          "AWS_DEFAULT_REGION", "AWS_PROFILE",
    "AWS_CONFIG_FILE"};

void shard_wanted_key(const struct shard_wanted *w, bool everywhere, char key[SHARD_CACHE_KEY]) {
  uint64_t a = SHARD_FNV_BASIS, b = 0x84222325cbf29ce4ULL;
  uint32_t version = SHARD_FORMAT_VERSION;
  const char *real = w->kind == SHARD_WANTED_OBJECT ? "" : w->real; /* one for all directories */
  /* A manifest that is written anew has another key: its listing needs no other check. */
  const struct stat *st = &w->identity;
  int64_t identity[] = {(int64_t)st->st_ino, st->st_size,        st->st_mtim.tv_sec,
                        st->st_mtim.tv_nsec, st->st_ctim.tv_sec, st->st_ctim.tv_nsec};
  const struct {
    const void *data;
    size_t size;
  } parts[] = {{real, strlen(real) + 1},
               {w->options_text, strlen(w->options_text) + 1},
               {&version, sizeof(version)},
               {w->origin, *w->origin ? strlen(w->origin) + 1 : 0},
               {identity, *w->origin && !everywhere ? sizeof(identity) : 0}};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    a = shard_fnv(a, parts[i].data, parts[i].size);
    b = shard_fnv(b ^ a, parts[i].data, parts[i].size);
  }
  bool here = shard_wanted_is_remote(w) && !everywhere;
  for (size_t i = 0; here && i < sizeof(places) / sizeof(places[0]); i++) {
    const char *value = builders_value(w, places[i]);
    a = shard_fnv(a, value ? value : "", value ? strlen(value) + 1 : 0);
    a = shard_fnv(a, "\n", 1);
    b = shard_fnv(b ^ a, "\n", 1);
  }
  snprintf(key, SHARD_CACHE_KEY, "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

uint64_t shard_wanted_job_id(const char *job) {
  return job ? shard_fnv(SHARD_FNV_BASIS, job, strlen(job)) : 0;
}

/* ---- is it still true? ---- */

bool shard_wanted_was_rewritten(const struct shard_wanted *w) {
  struct stat st;
  return w->kind == SHARD_WANTED_MANIFEST &&
         (stat(w->origin, &st) != 0 || st.st_ino != w->identity.st_ino ||
          st.st_size != w->identity.st_size || !same_time(st.st_mtim, w->identity.st_mtim) ||
          !same_time(st.st_ctim, w->identity.st_ctim));
}

static bool is_listed_since(const struct shard_listing *l, int64_t since) {
  int64_t listed = l->header->listed_sec * 1000000000LL + l->header->listed_nsec;
  return listed <= shard_clock_real_ns() && listed >= since;
}

bool shard_wanted_is_fresh(const struct shard_wanted *w, const struct shard_listing *l) {
  return is_listed_since(l, w->since ? w->since : w->asked - SHARD_WANTED_FRESH * 1000000000LL);
}

bool shard_wanted_is_new(const struct shard_wanted *w, const struct shard_listing *l) {
  return is_listed_since(l, w->asked);
}
