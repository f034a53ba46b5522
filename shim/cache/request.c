/* SPDX-License-Identifier: MIT */
#include "cache/request.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/api.h"
#include "base/error.h"
#include "base/path.h"
#include "base/xxh64.h"
#include "config/config.h"
#include "host/builder.h"
#include "listing/format.h"
#include "listing/identity.h"

/* ---- the KEY ------------------------------------------------------------ */

/* What shardctl will have for a variable; NULL: nothing. */
static const char *builders_value(const struct shard_request *r, const char *name) {
  size_t n = strlen(name);
  const char *own = shard_builder_find_variable(r->environment, name, n);
  return !own ? getenv(name) : own[n] ? own + n + 1 : NULL;
}

/* What says where a bucket is: one of the same name elsewhere is another one. No keys. */
static const char *const places[] = {
    "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",   "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_REGION",          "AWS_DEFAULT_REGION", "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE",    "AWS_SHARED_CREDENTIALS_FILE"};

void shard_request_hash_add(struct shard_request_hash *h, const void *data, size_t size) {
  h->a = shard_xxh64(data, size, h->a);
  h->b = shard_xxh64(data, size, h->b ^ SHARD_XXH_PRIME3);
}

void shard_request_hash_print(const struct shard_request_hash *h, char key[SHARD_CACHE_KEY]) {
  snprintf(key, SHARD_CACHE_KEY, "%016llx%016llx", (unsigned long long)h->a,
           (unsigned long long)h->b);
}

static void add_text(struct shard_request_hash *h, const char *text) {
  shard_request_hash_add(h, text ? text : "", text ? strlen(text) + 1 : 0);
}

/*
 * By the directory's path, but for its last name: where that, as a link, leads to may change while
 * a job runs, and ranks may spell the rest in different ways.
 */
static int add_directory(struct shard_request_hash *h, const struct shard_request *r) {
  if (!r->dir) {
    add_text(h, NULL);
    return 0;
  }
  size_t n = strlen(r->dir);
  while (n > 1 && r->dir[n - 1] == '/') {
    n--;
  }
  const char *slash = memrchr(r->dir, '/', n), *last = slash ? slash + 1 : r->dir;
  size_t rest = n - (size_t)(last - r->dir);
  bool dots = rest == 0 || (*last == '.' && (rest == 1 || (rest == 2 && last[1] == '.')));
  /* What ends in dots has no name of its own. */
  char *path = dots ? realpath(r->dir, NULL) : strndup(r->dir, n), *parent = NULL;
  char *name = path ? strrchr(path, '/') : NULL;
  if (path && name) {
    *name++ = 0;
    parent = realpath(*path ? path : "/", NULL);
  } else if (path) {
    parent = realpath(".", NULL);
  }
  int rc = parent ? 0 : -errno;
  add_text(h, parent);
  add_text(h, name ? name : path);
  free(parent);
  free(path);
  return rc;
}

static int make_key(struct shard_request *r) {
  struct shard_request_hash h = {0, 0};
  uint8_t boot[SHARD_BOOT_SIZE];
  static _Atomic uint64_t calls; /* of a call's own listing */
  const uint64_t numbers[] = {SHARD_FORMAT_VERSION, r->kind, r->own, r->round,
                              r->alone ? atomic_fetch_add(&calls, 1) + 1 : 0};
  int told = shard_identity_boot(boot);
  int rc = told < 0 ? told : add_directory(&h, r);
  shard_request_hash_add(&h, boot, sizeof(boot));
  shard_request_hash_add(&h, numbers, sizeof(numbers));
  add_text(&h, r->job.name);
  add_text(&h, r->origin);
  add_text(&h, r->list);
  add_text(&h, r->options_text);
  shard_request_hash_add(&h, r->names, r->names_size);
  for (size_t i = 0; *r->origin && i < sizeof(places) / sizeof(places[0]); i++) {
    add_text(&h, builders_value(r, places[i]));
  }
  shard_request_hash_print(&h, r->key);
  return rc;
}

/* ---- where it lies ------------------------------------------------------ */

/* A cache inside the dataset would change it. `cache`, or its parent, is looked at. */
static int refuse_inside(const char *real, const char *cache, char *err, size_t size) {
  char *inside = realpath(cache, NULL);
  if (!inside) { /* it is not there yet */
    char *parent = strdup(cache), *slash = parent ? strrchr(parent, '/') : NULL;
    if (slash && slash != parent) {
      *slash = 0;
      inside = realpath(parent, NULL);
    }
    free(parent);
  }
  bool refused = inside && shard_path_below(inside, real);
  free(inside);
  return !refused ? 0
                  : shard_error_set(err, size, -EINVAL,
                                    "the cache directory '%.200s' lies inside '%.200s', which "
                                    "would change with every listing; set SHARD_CACHE_DIR, or name "
                                    "directories of the dataset that do not hold it",
                                    cache, real);
}

void shard_request_path(const struct shard_request *r, enum shard_cache_kind kind, uint64_t number,
                        char path[PATH_MAX]) {
  char name[SHARD_CACHE_NAME], owner[SHARD_JOB_OWNER];
  shard_job_owner(&r->job, owner);
  shard_cache_name_print(kind, r->key, owner, number, name);
  snprintf(path, PATH_MAX, "%s/%s", r->cache, name);
}

int shard_request_locate(struct shard_request *r, char *err, size_t size) {
  const char *set = shard_config()->cache_dir;
  bool inside = *r->real != 0; /* a bucket has no inside */
  /* Before it is made there. */
  int rc = inside && set ? refuse_inside(r->real, set, err, size) : 0;
  if (rc == 0) {
    ssize_t n = shard_cache_dir(r->cache, PATH_MAX - SHARD_CACHE_NAME, err, size);
    rc = n < 0 ? (int)n : inside ? refuse_inside(r->real, r->cache, err, size) : 0;
  }
  if (rc != 0) {
    return rc;
  }
  /* Not before: it may put a file into the cache. */
  rc = shard_job_get(r->alone, &r->job);
  rc = rc ? rc : make_key(r);
  if (rc != 0) {
    return shard_error_set(err, size, rc, "cannot tell the job, or this host's boot: %s",
                           strerror(-rc));
  }
  shard_request_path(r, SHARD_CACHE_LISTING, 0, r->file);
  return 0;
}
