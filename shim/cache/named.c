/* SPDX-License-Identifier: MIT */
#include "cache/named.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "cache/judge.h"
#include "cache/lock.h"
#include "cache/make.h"
#include "cache/safe.h"
#include "cache/store.h"
#include "config/config.h"
#include "config/listings.h"
#include "config/pattern.h"
#include "libshard.h"
#include "listing/listing.h"

#define SUFFIX ".listing"

/* ---- objects ---- */

/* Whether the object is there, as this job has got it. Without a job it gets old. */
static bool have_object(const char *file, bool job) {
  struct stat st;
  char ignored[1];
  int fd = shard_safe_open(file, O_RDONLY, 0, false, &st, ignored, sizeof(ignored));
  shard_file_close(fd);
  return fd >= 0 && (job || shard_store_is_fresh(&st));
}

/* Where it is in the cache. */
static int locate_object(struct shard_request *r, char file[PATH_MAX], char *err, size_t size) {
  char name[SHARD_CACHE_NAME];
  const char *manifest = shard_pattern_manifest_suffix(r->origin);
  int rc = shard_store_locate(r, err, size);
  if (rc != 0) {
    return rc;
  }
  shard_cache_name_print(SHARD_CACHE_OBJECT, r->key, shard_store_pin_id(r->pin), name);
  return (size_t)snprintf(file, PATH_MAX, "%s/%s%s", r->cache, name, manifest ? manifest : SUFFIX) <
                 PATH_MAX
             ? 0
             : shard_error_set(err, size, -ENAMETOOLONG,
                               "the path of the cache directory is too long");
}

/* Under the lock. */
static int get_object(const struct shard_request *r, int lock, int64_t deadline, const char *file,
                      char *err, size_t size) {
  struct shard_making making = {.how = SHARD_MAKE_FILE, .lock = lock, .deadline = deadline};
  char *made = shard_store_file(r, SHARD_CACHE_NEW, (uint64_t)getpid());
  int rc = made ? shard_make(r, &making, made, err, size)
                : shard_error_set(err, size, -ENOMEM, "out of memory");
  if (rc == 0 && rename(made, file) != 0) {
    rc = shard_error_set(err, size, -errno, "SHARD_LISTING='%.300s': %s", r->origin,
                         strerror(errno));
  }
  free(made);
  return rc;
}

int shard_named_get(const struct shard_request *asked, const char *name, char file[PATH_MAX],
                    char *err, size_t size) {
  int lock = -1, rc;
  int64_t deadline;
  snprintf(file, PATH_MAX, "%s", name);
  if (!shard_listings_is_object(name)) {
    return 0;
  }
  struct shard_request *r = calloc(1, sizeof(*r));
  if (!r) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  r->kind = SHARD_REQUEST_OBJECT;
  r->pin = asked->pin;
  strcpy(r->real, asked->real);
  snprintf(r->origin, sizeof(r->origin), "%s", name);
  rc = locate_object(r, file, err, size);
  if (rc == 0 && !have_object(file, r->pin)) {
    rc = shard_make_lock(r, &lock, &deadline, err, size);
    if (rc == 0 && !have_object(file, r->pin)) {
      rc = get_object(r, lock, deadline, file, err, size);
    }
    shard_lock_release(lock);
  }
  free(r);
  return rc;
}

/* ---- looking for one ---- */

/* The path or URL of an item. */
static int expand(const struct shard_listings_item *item, char file[PATH_MAX], char *err,
                  size_t size) {
  return shard_pattern_expand_item(item->text, item->length, file, PATH_MAX) < 0
             ? shard_error_set(err, size, -ENAMETOOLONG, "SHARD_LISTING is too long")
             : 0;
}

/* On the heap. Paths are as messages show them. */
struct search {
  const struct shard_request *request;
  struct shard_listing *found;
  char name[PATH_MAX];   /* its */
  char second[PATH_MAX]; /* another one of this dataset and options; or "" */
  char apart[PATH_MAX];  /* of this dataset, with other options; or "" */
  char options[SHARD_OPTIONS_TEXT];
  char file[PATH_MAX], url[PATH_MAX];
};

/* Look at a file. 0, or a negative errno of shard_listing_open(). */
static int consider(struct search *s) {
  const struct shard_request *r = s->request;
  struct shard_listing *l;
  int rc = shard_listing_open(s->file, &l);
  if (rc != 0) {
    return rc;
  }
  if (strcmp(l->source, shard_request_source(r)) != 0) {
    shard_listing_close(l); /* it is another dataset's */
  } else if (strcmp(l->options, r->options_text) != 0) {
    snprintf(s->apart, sizeof(s->apart), "%s", s->url);
    snprintf(s->options, sizeof(s->options), "%s", l->options);
    shard_listing_close(l);
  } else if (s->found) {
    snprintf(s->second, sizeof(s->second), "%s", s->url);
    shard_listing_close(l);
  } else {
    s->found = l;
    snprintf(s->name, sizeof(s->name), "%s", s->url);
  }
  return 0;
}

static int consider_item(struct search *s, const struct shard_listings_item *item, char *err,
                         size_t size) {
  const struct shard_request *r = s->request;
  int rc = expand(item, s->url, err, size);
  rc = rc ? rc : shard_named_get(r, s->url, s->file, err, size);
  if (rc != 0) {
    return rc;
  }
  rc = consider(s);
  return rc == 0 ? 0 : shard_judge_refuse(s->url, rc, err, size);
}

/* What has come of it. */
static int conclude(struct search *s, struct shard_listing **out, char *err, size_t size) {
  const struct shard_request *r = s->request;
  const char *source = shard_request_source(r), *list = shard_config()->listing;
  if (s->second[0]) {
    return shard_error_set(err, size, -EINVAL,
                           "SHARD_LISTING names two listings of '%.200s': '%.200s' and '%.200s'; "
                           "leave one out",
                           source, s->name, s->second);
  }
  if (s->found && !shard_judge_is_true(s->found, source, false)) {
    return shard_error_set(err, size, -ESTALE,
                           "SHARD_LISTING='%.300s': directory '%.300s' has changed since; make it "
                           "anew with shardctl index",
                           s->name, source);
  }
  if (s->found) {
    *out = s->found;
    s->found = NULL;
    return 1;
  }
  if (s->apart[0]) {
    return shard_judge_refuse_options(s->apart, source, r->options_text, s->options, err, size);
  }
  return shard_error_set(err, size, -ENOENT,
                         "SHARD_LISTING='%.200s' has no listing of '%.300s'; make it with "
                         "shardctl index",
                         list, source);
}

/*
 * Look at all files and objects for the listing of this dataset, made with the very options. 1, or
 * a negative errno and a line.
 */
static int open_among(const struct shard_request *r, struct shard_listing **out, char *err,
                      size_t size) {
  struct search *s = calloc(1, sizeof(*s));
  struct shard_listings_item item;
  const char *list = shard_config()->listing;
  if (!s) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  int rc = 0;
  s->request = r;
  while (rc == 0 && (list = shard_listings_next(list, &item))) {
    rc = consider_item(s, &item, err, size);
  }
  rc = rc ? rc : conclude(s, out, err, size);
  shard_listing_close(s->found);
  free(s);
  return rc;
}

/* ---- what is named ---- */

/* A file, or an object that is fetched. As shard_judge_open(). */
static int open_one(const struct shard_request *r, const char *name, struct shard_listing **out,
                    char *err, size_t size) {
  char *file = malloc(PATH_MAX);
  int rc = file ? shard_named_get(r, name, file, err, size)
                : shard_error_set(err, size, -ENOMEM, "out of memory");
  rc = rc ? rc
          : shard_judge_open(file, name, shard_request_source(r), r->options_text, out, err, size);
  free(file);
  return rc;
}

int shard_named_open_own(const struct shard_request *r, const char *list,
                         struct shard_listing **out, char *err, size_t size) {
  int rc = open_one(r, list, out, err, size);
  return rc > 0   ? 0
         : rc < 0 ? rc
                  : shard_error_set(err, size, -EINVAL,
                                    "SHARD_LISTING='%.300s' is of another directory, or was made "
                                    "with other options",
                                    list);
}

int shard_named_open(const struct shard_request *r, struct shard_listing **out, char *err,
                     size_t size) {
  const char *list = shard_config()->listing;
  struct shard_listings_item item;
  if (shard_pattern_has(list, 'r') || shard_pattern_has(list, 'e') ||
      shard_pattern_is_manifest(list)) {
    return shard_error_set(err, size, -EINVAL,
                           "SHARD_LISTING='%.300s' gives ranks lists of their own, which is for "
                           "the shard view; here all ranks need one listing (shardctl index)",
                           list);
  }
  if (shard_listings_are_several(list)) {
    return open_among(r, out, err, size);
  }
  char *file = malloc(PATH_MAX);
  if (!file) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  shard_listings_next(list, &item);
  int rc = expand(&item, file, err, size);
  rc = rc ? rc : open_one(r, file, out, err, size);
  free(file);
  return rc;
}
