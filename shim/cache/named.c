/* SPDX-License-Identifier: MIT */
#include "cache/named.h"

#include <dirent.h>
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
#include "base/fnv.h"
#include "cache/judge.h"
#include "cache/lock.h"
#include "cache/make.h"
#include "cache/safe.h"
#include "cache/store.h"
#include "config/config.h"
#include "config/dataset.h"
#include "config/listings.h"
#include "config/pattern.h"
#include "host/real.h"
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

/* ---- names ---- */

/* %d stands for the name of the directory as the caller has it, or of what it is. */
static int expand(const struct shard_listings_item *item, const struct shard_request *r,
                  char file[PATH_MAX], char *err, size_t size) {
  char name[NAME_MAX + 1];
  const char *from = "", *source = shard_request_source(r);
  size_t n = r->dir ? shard_dataset_name(r->dir, strlen(r->dir), &from) : 0;
  n = n > 0 ? n : shard_dataset_name(source, strlen(source), &from);
  snprintf(name, sizeof(name), "%.*s", (int)(n < NAME_MAX ? n : NAME_MAX), from);
  return shard_pattern_expand_dataset(item->text, item->length, name, file, PATH_MAX) < 0
             ? shard_error_set(err, size, -ENAMETOOLONG, "SHARD_LISTING is too long")
             : 0;
}

/* Whether it is a folder of listings: it is there, or its name says so. */
static bool is_folder(const char *file) {
  struct stat st;
  size_t n = strlen(file);
  return !shard_listings_is_object(file) &&
         ((n > 0 && file[n - 1] == '/') || (stat(file, &st) == 0 && S_ISDIR(st.st_mode)));
}

/* In a folder rank 0 calls a listing by its dataset's name, and by a hash of that and the options:
 * the same on all hosts. */
static int name_in_folder(const struct shard_request *r, char file[PATH_MAX], char *err,
                          size_t size) {
  const char *name, *source = shard_request_source(r);
  size_t used = strlen(file), n = shard_dataset_name(source, strlen(source), &name);
  uint64_t hash = shard_fnv(SHARD_FNV_BASIS, source, strlen(source) + 1);
  hash = shard_fnv(hash, r->options_text, strlen(r->options_text));
  struct stat st;
  if (stat(file, &st) != 0 || !S_ISDIR(st.st_mode)) {
    return shard_error_set(err, size, -ENOENT,
                           "SHARD_LISTING='%.300s' is no folder; make it before the job starts "
                           "(SHARD_LISTING_BUILD=first)",
                           file);
  }
  int more = snprintf(file + used, PATH_MAX - used, "/%.*s-%016llx" SUFFIX,
                      (int)(n < 128 ? n : 128), name, (unsigned long long)hash);
  return more < 0 || (size_t)more >= PATH_MAX - used
             ? shard_error_set(err, size, -ENAMETOOLONG, "SHARD_LISTING is too long")
             : 0;
}

enum kind {
  ONE,  /* a file or object for all datasets: it may be of another one */
  OWN,  /* by %d, or by a folder, and rank 0 makes it: it must be of this one */
  AMONG /* a folder, or several: the one of this dataset is looked for */
};

/* Tell what SHARD_LISTING is, and print the path of the file or object into file[PATH_MAX]; of a
 * folder, only if rank 0 is to make it there (`first`). */
static int find(const struct shard_request *r, bool first, enum kind *kind, char file[PATH_MAX],
                char *err, size_t size) {
  const char *list = shard_config()->listing;
  struct shard_listings_item item;
  *file = 0;
  *kind = AMONG;
  if (shard_listings_are_several(list) || !shard_listings_next(list, &item)) {
    return 0;
  }
  int rc = expand(&item, r, file, err, size);
  if (rc != 0) {
    return rc;
  }
  bool folder = is_folder(file), own = folder || shard_pattern_has(list, 'd');
  *kind = !own ? ONE : first ? OWN : AMONG;
  return folder && first ? name_in_folder(r, file, err, size) : 0;
}

/* ---- looking for one ---- */

/* On the heap. Paths are as messages show them. */
struct search {
  const struct shard_request *request;
  struct shard_listing *best;
  bool exact;            /* it was made with the very options */
  char name[PATH_MAX];   /* the best one's */
  char second[PATH_MAX]; /* another one that is as good; or "" */
  char apart[PATH_MAX];  /* of this dataset, with other options; or "" */
  char options[SHARD_OPTIONS_TEXT];
  char damaged[PATH_MAX]; /* in a folder, could not be opened; or "" */
  int fault;              /* why */
  char file[PATH_MAX], url[PATH_MAX];
};

/* Look at a file. 0, or a negative errno of shard_listing_open(). */
static int consider(struct search *s, const char *file, const char *name) {
  const struct shard_request *r = s->request;
  const char *source = shard_request_source(r);
  struct shard_listing *l;
  int rc = shard_listing_open(file, &l);
  if (rc != 0) {
    return rc;
  }
  bool exact = strcmp(l->options, r->options_text) == 0;
  bool ours = strcmp(l->source, source) == 0;
  if (!ours || (s->best && s->exact && !exact)) {
    /* it is another dataset's, or a worse one */
  } else if (!shard_judge_serves(l, source, &r->options)) {
    snprintf(s->apart, sizeof(s->apart), "%s", name);
    snprintf(s->options, sizeof(s->options), "%s", l->options);
  } else if (s->best && exact == s->exact) {
    snprintf(s->second, sizeof(s->second), "%s", name);
  } else {
    struct shard_listing *worse = s->best;
    s->best = l;
    l = worse;
    s->exact = exact;
    s->second[0] = 0;
    snprintf(s->name, sizeof(s->name), "%s", name);
  }
  shard_listing_close(l);
  return 0;
}

/* Look at what a folder has. One that is damaged may be another dataset's. */
static int consider_folder(struct search *s, const char *folder, char *err, size_t size) {
  DIR *dir = shard_real()->opendir(folder);
  const struct dirent *entry;
  char *file = malloc(PATH_MAX);
  int rc = 0;
  if (!dir || !file) {
    int fault = dir ? ENOMEM : errno;
    rc = shard_error_set(err, size, -fault, "SHARD_LISTING='%.300s': %s%s", folder, strerror(fault),
                         fault == EACCES || fault == EPERM ? "; let this user read the folder"
                         : shard_error_is_shortage(fault)
                             ? ""
                             : "; make the folder, and listings in it with shardctl index");
  }
  while (rc == 0 && (entry = shard_real()->readdir(dir))) {
    size_t n = strlen(entry->d_name), k = strlen(SUFFIX), end = strlen(folder);
    bool slash = end > 0 && folder[end - 1] == '/';
    if (n <= k || strcmp(entry->d_name + n - k, SUFFIX) != 0) {
      continue;
    }
    int length = snprintf(file, PATH_MAX, "%s%s%s", folder, slash ? "" : "/", entry->d_name);
    int fault = length < PATH_MAX ? consider(s, file, file) : -ENAMETOOLONG;
    if (fault != 0 && fault != -ENOENT) {
      snprintf(s->damaged, sizeof(s->damaged), "%s", file);
      s->fault = fault;
    }
  }
  if (dir) {
    shard_real()->closedir(dir);
  }
  free(file);
  return rc;
}

static int consider_item(struct search *s, const struct shard_listings_item *item, char *err,
                         size_t size) {
  const struct shard_request *r = s->request;
  int rc = expand(item, r, s->url, err, size);
  if (rc == 0 && is_folder(s->url)) {
    return consider_folder(s, s->url, err, size);
  }
  rc = rc ? rc : shard_named_get(r, s->url, s->file, err, size);
  if (rc != 0) {
    return rc;
  }
  rc = consider(s, s->file, s->url);
  return rc == 0 ? 0
                 : shard_error_set(err, size, rc, "SHARD_LISTING='%.300s', for '%.200s': %s; %s",
                                   s->url, shard_request_source(r), shard_listing_strerror(rc),
                                   shard_judge_remedy(rc));
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
  if (s->best && !shard_judge_is_true(s->best, source, false)) {
    return shard_error_set(err, size, -ESTALE,
                           "SHARD_LISTING='%.300s': directory '%.300s' has changed since; make it "
                           "anew with shardctl index",
                           s->name, source);
  }
  if (s->best) {
    *out = s->best;
    s->best = NULL;
    return 1;
  }
  if (s->apart[0]) {
    return shard_error_set(err, size, -EINVAL,
                           "SHARD_LISTING='%.200s': '%.200s' is asked for with '%.100s', and it "
                           "was made with '%.100s'; make one with shardctl index",
                           s->apart, source, r->options_text, s->options);
  }
  if (s->damaged[0]) {
    return shard_error_set(err, size, s->fault,
                           "SHARD_LISTING='%.200s' has no listing of '%.200s', but '%.200s': %s; "
                           "%s",
                           list, source, s->damaged, shard_listing_strerror(s->fault),
                           shard_judge_remedy(s->fault));
  }
  return shard_error_set(err, size, -ENOENT,
                         "SHARD_LISTING='%.200s' has no listing of '%.300s'; make it with "
                         "shardctl index, in a folder as NAME" SUFFIX,
                         list, source);
}

/*
 * Look at all files and objects for the listing of this dataset. Of those that would do, one made
 * with the very options comes first. 1, or a negative errno and a line.
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
  shard_listing_close(s->best);
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
  rc = rc ? rc : shard_judge_open(file, name, shard_request_source(r), &r->options, out, err, size);
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

/* SHARD_LISTING_BUILD=first: rank 0 puts the listing into `file`. */
static int share(struct shard_request *r, const char *file, bool own, char *err, size_t size) {
  struct shard_world world;
  if (r->kind == SHARD_REQUEST_BUCKET && !*r->real) {
    return shard_error_set(err, size, -EINVAL,
                           "SHARD_LISTING_BUILD=first is not for a bucket, which does not tell "
                           "whether the listing that is there is old; make it with shardctl index");
  }
  int rc = shard_world_get(&world, err, size);
  if (rc == -ENOENT) {
    return shard_error_set(err, size, -EINVAL,
                           "SHARD_LISTING_BUILD=first: no rank is known; set SHARD_RANK and "
                           "SHARD_SIZE");
  }
  strcpy(r->shared, file);
  r->shared_own = own;
  r->waits = world.rank > 0;
  r->pin = r->pin || !shard_listings_is_object(file) ? r->pin : r->shared;
  return rc;
}

int shard_named_open(struct shard_request *r, struct shard_listing **out, char *err, size_t size) {
  const char *list = shard_config()->listing;
  bool first = shard_config()->listing_first;
  bool own = shard_pattern_has(list, 'r') || shard_pattern_has(list, 'e');
  enum kind kind = ONE;
  char *file = malloc(PATH_MAX);
  if (!file) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  int rc = own ? 0 : find(r, first, &kind, file, err, size);
  if (rc == 0 && (own || shard_pattern_is_manifest(file))) {
    rc = shard_error_set(err, size, -EINVAL,
                         "SHARD_LISTING='%.300s' gives ranks lists of their own, which is for "
                         "the shard view; here all ranks need one listing (shardctl index)",
                         list);
  }
  if (rc == 0) {
    rc = kind == AMONG ? open_among(r, out, err, size)
         : first       ? share(r, file, kind == OWN, err, size)
                       : open_one(r, file, out, err, size);
  }
  free(file);
  return rc;
}
