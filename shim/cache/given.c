/* SPDX-License-Identifier: MIT */
#include "cache/given.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fnv.h"
#include "cache/fetch.h"
#include "cache/prebuilt.h"
#include "cache/wanted.h"
#include "config/config.h"
#include "config/dataset.h"
#include "config/listings.h"
#include "config/pattern.h"
#include "host/real.h"
#include "listing/codec.h"
#include "listing/listing.h"

#define SUFFIX ".listing"

/* ---- names ---- */

/* What %d stands for: the name of the directory as the caller has it, or of what it is. */
static void print_name(const struct shard_wanted *w, const char *dir, char name[NAME_MAX + 1]) {
  const char *from = "", *source = shard_wanted_source(w);
  size_t n = dir ? shard_dataset_name(dir, strlen(dir), &from) : 0;
  n = n > 0 ? n : shard_dataset_name(source, strlen(source), &from);
  n = n > NAME_MAX ? NAME_MAX : n;
  memcpy(name, from, n);
  name[n] = 0;
}

static int expand(const struct shard_listings_item *item, const struct shard_wanted *w,
                  const char *dir, char *file, size_t size, char *err, size_t err_size) {
  char name[NAME_MAX + 1];
  print_name(w, dir, name);
  return shard_pattern_expand_dataset(item->text, item->length, name, file, size) < 0
             ? shard_error_set(err, err_size, -ENAMETOOLONG, "SHARD_LISTING is too long")
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
static int name_in_folder(const struct shard_wanted *w, char *file, size_t size, char *err,
                          size_t err_size) {
  const char *name, *source = shard_wanted_source(w);
  size_t used = strlen(file), n = shard_dataset_name(source, strlen(source), &name);
  uint64_t hash = shard_fnv(SHARD_FNV_BASIS, source, strlen(source) + 1);
  hash = shard_fnv(hash, w->options_text, strlen(w->options_text));
  struct stat st;
  if (stat(file, &st) != 0 || !S_ISDIR(st.st_mode)) {
    return shard_error_set(err, err_size, -ENOENT,
                           "SHARD_LISTING='%.300s' is no folder; make it before the job starts "
                           "(SHARD_LISTING_BUILD=first)",
                           file);
  }
  int more = snprintf(file + used, size - used, "/%.*s-%016llx" SUFFIX, (int)(n < 128 ? n : 128),
                      name, (unsigned long long)hash);
  return more < 0 || (size_t)more >= size - used
             ? shard_error_set(err, err_size, -ENAMETOOLONG, "SHARD_LISTING is too long")
             : 0;
}

int shard_given_find(const struct shard_wanted *w, const char *dir, bool first,
                     enum shard_given_kind *kind, char *file, size_t size, char *err,
                     size_t err_size) {
  const char *list = shard_config()->listing;
  struct shard_listings_item item;
  *file = 0;
  *kind = SHARD_GIVEN_AMONG;
  if (shard_listings_are_several(list) || !shard_listings_next(list, &item)) {
    return 0;
  }
  if (shard_pattern_has(list, 'r') || shard_pattern_has(list, 'e')) {
    *kind = SHARD_GIVEN_ONE; /* is refused by its caller */
    return 0;
  }
  int rc = expand(&item, w, dir, file, size, err, err_size);
  if (rc != 0) {
    return rc;
  }
  bool folder = is_folder(file);
  *kind = (folder && first) || shard_pattern_has(list, 'd') ? SHARD_GIVEN_OWN : SHARD_GIVEN_ONE;
  if (folder && first) {
    return name_in_folder(w, file, size, err, err_size);
  }
  if (folder || (*kind == SHARD_GIVEN_OWN && !first)) {
    *kind = SHARD_GIVEN_AMONG;
  }
  return 0;
}

/* ---- looking for one ---- */

/* On the heap. Paths are as messages show them. */
struct search {
  const struct shard_wanted *wanted;
  const char *dir;
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
  const struct shard_wanted *w = s->wanted;
  const char *source = shard_wanted_source(w);
  struct shard_listing *l;
  int rc = shard_listing_open(file, &l);
  if (rc != 0) {
    return rc;
  }
  bool exact = strcmp(l->options, w->options_text) == 0;
  bool ours = strcmp(l->source, source) == 0;
  if (!ours || (s->best && s->exact && !exact)) {
    shard_listing_close(l);
  } else if (!shard_prebuilt_serves(l, source, &w->options)) {
    snprintf(s->apart, sizeof(s->apart), "%s", name);
    snprintf(s->options, sizeof(s->options), "%s", l->options);
    shard_listing_close(l);
  } else if (s->best && exact == s->exact) {
    snprintf(s->second, sizeof(s->second), "%s", name);
    shard_listing_close(l);
  } else {
    shard_listing_close(s->best);
    s->best = l;
    s->exact = exact;
    s->second[0] = 0;
    snprintf(s->name, sizeof(s->name), "%s", name);
  }
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
  const struct shard_wanted *w = s->wanted;
  int rc = expand(item, w, s->dir, s->file, sizeof(s->file), err, size);
  if (rc != 0) {
    return rc;
  }
  snprintf(s->url, sizeof(s->url), "%s", s->file);
  if (is_folder(s->file)) {
    return consider_folder(s, s->file, err, size);
  }
  if (shard_listings_is_object(s->url)) {
    rc = shard_fetch(s->dir, s->url, w->job, s->file, sizeof(s->file), err, size);
    if (rc != 0) {
      return rc;
    }
  }
  rc = consider(s, s->file, s->url);
  return rc == 0 ? 0
                 : shard_error_set(err, size, rc, "SHARD_LISTING='%.300s', for '%.200s': %s; %s",
                                   s->url, shard_wanted_source(w), shard_listing_strerror(rc),
                                   shard_prebuilt_remedy(rc));
}

/* What has come of it. */
static int conclude(struct search *s, struct shard_listing **out, char *err, size_t size) {
  const struct shard_wanted *w = s->wanted;
  const char *source = shard_wanted_source(w), *list = shard_config()->listing;
  if (s->second[0]) {
    return shard_error_set(err, size, -EINVAL,
                           "SHARD_LISTING names two listings of '%.200s': '%.200s' and '%.200s'; "
                           "leave one out",
                           source, s->name, s->second);
  }
  if (s->best && !shard_prebuilt_is_true(s->best, source)) {
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
                           s->apart, source, w->options_text, s->options);
  }
  if (s->damaged[0]) {
    return shard_error_set(err, size, s->fault,
                           "SHARD_LISTING='%.200s' has no listing of '%.200s', but '%.200s': %s; "
                           "%s",
                           list, source, s->damaged, shard_listing_strerror(s->fault),
                           shard_prebuilt_remedy(s->fault));
  }
  return shard_error_set(err, size, -ENOENT,
                         "SHARD_LISTING='%.200s' has no listing of '%.300s'; make it with "
                         "shardctl index, in a folder as NAME" SUFFIX,
                         list, source);
}

int shard_given_open_among(const struct shard_wanted *w, const char *dir,
                           struct shard_listing **out, char *err, size_t size) {
  struct search *s = calloc(1, sizeof(*s));
  struct shard_listings_item item;
  const char *list = shard_config()->listing;
  if (!s) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  int rc = 0;
  s->wanted = w;
  s->dir = dir;
  while (rc == 0 && (list = shard_listings_next(list, &item))) {
    rc = consider_item(s, &item, err, size);
  }
  rc = rc ? rc : conclude(s, out, err, size);
  shard_listing_close(s->best);
  free(s);
  return rc;
}
