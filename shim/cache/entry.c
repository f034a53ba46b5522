/* SPDX-License-Identifier: MIT */
#include "cache/entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fnv.h"
#include "base/path.h"
#include "cache/prebuilt.h"
#include "cache/safe.h"
#include "cache/stream.h"
#include "config/config.h"
#include "host/real.h"
#include "libshard.h"
#include "listing/listing.h"

#define MONTH (30L * 24 * 3600) /* seconds */

/* ---- the cache directory ---- */

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
  /* Where everything is the dataset, every cache lies inside. */
  bool refused = inside && strcmp(real, "/") != 0 && shard_path_below(inside, real);
  free(inside);
  return !refused ? 0
                  : shard_error_set(err, size, -EINVAL,
                                    "the cache directory '%.200s' lies inside '%.200s', which "
                                    "would change with every listing; set SHARD_CACHE_DIR",
                                    cache, real);
}

int shard_entry_locate(struct shard_entry *e, const struct shard_wanted *w, char *cache, char *err,
                       size_t size) {
  const char *set = shard_config()->cache_dir;
  bool inside = *w->real != 0; /* a bucket has no inside */
  /* Before it is made there. */
  int rc = inside && set ? refuse_inside(w->real, set, err, size) : 0;
  if (rc == 0) {
    ssize_t n = shard_cache_dir(cache, PATH_MAX - SHARD_CACHE_NAME, err, size);
    rc = n < 0 ? (int)n : inside ? refuse_inside(w->real, cache, err, size) : 0;
  }
  *e = (struct shard_entry){.wanted = w, .cache = cache};
  shard_wanted_key(w, false, e->key);
  shard_wanted_key(w, !w->since, e->job_key); /* ranks may have endpoints of their own */
  return rc;
}

char *shard_entry_path(const struct shard_entry *e, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", e->cache, name) < 0 ? NULL : path;
}

/* ---- finding ---- */

/* Whether it is the one that is asked for: KEY may be another's, too. */
static bool is_wanted(const struct shard_entry *e, const struct shard_listing *l) {
  const struct shard_wanted *w = e->wanted;
  const char *source = shard_wanted_source(w);
  return (strcmp(l->source, source) == 0 && strcmp(l->options, w->options_text) == 0) ||
         (e->any_options && shard_prebuilt_serves(l, source, &w->options));
}

/* Open the listing that a link leads to, if it is the one that is asked for. */
static bool open_link(const struct shard_entry *e, const char *name, struct shard_found *found) {
  char *link = shard_entry_path(e, name), *file = NULL;
  ssize_t n = link ? readlink(link, found->name, sizeof(found->name) - 1) : -1;
  free(link);
  found->listing = NULL;
  if (n <= 0) {
    return false;
  }
  found->name[n] = 0;
  if (strchr(found->name, '/') || !(file = shard_entry_path(e, found->name))) {
    return false;
  }
  if (shard_safe_listing(file, &found->listing) == 0 && !is_wanted(e, found->listing)) {
    shard_listing_close(found->listing);
    found->listing = NULL;
  }
  free(file);
  return found->listing != NULL;
}

/* Keep what was found, or close it. */
static bool keep_if(bool good, struct shard_found *found) {
  if (!good) {
    shard_listing_close(found->listing);
    found->listing = NULL;
  }
  return good;
}

/* Where a file system cannot be told from earlier ones, what was begun after the call will do. */
static bool is_true(const struct shard_wanted *w, const struct shard_listing *l) {
  return shard_prebuilt_is_true_here(l, w->real) ||
         (shard_wanted_is_new(w, l) && shard_prebuilt_is_true(l, w->real));
}

bool shard_entry_find_current(const struct shard_entry *e, struct shard_found *found) {
  const struct shard_wanted *w = e->wanted;
  char name[SHARD_CACHE_NAME];
  shard_cache_name_print(SHARD_CACHE_CURRENT, e->key, 0, name);
  return open_link(e, name, found) &&
         keep_if(shard_wanted_is_remote(w) ? shard_wanted_is_fresh(w, found->listing)
                                           : is_true(w, found->listing),
                 found);
}

static void name_pin(const struct shard_entry *e, const char *job, char name[SHARD_CACHE_NAME]) {
  shard_cache_name_print(SHARD_CACHE_JOB, e->job_key, shard_wanted_job_id(job), name);
}

bool shard_entry_find_pinned(const struct shard_entry *e, const char *job,
                             struct shard_found *found) {
  char name[SHARD_CACHE_NAME];
  name_pin(e, job, name);
  /* One that is older than what is wanted is of an earlier program of the job. */
  return open_link(e, name, found) &&
         keep_if(!e->wanted->since || shard_wanted_is_fresh(e->wanted, found->listing), found);
}

bool shard_entry_find_shared(const struct shard_entry *e, const char *object,
                             struct shard_found *found) {
  char name[SHARD_CACHE_NAME];
  struct stat st;
  time_t now = time(NULL);
  name_pin(e, object, name);
  char *link = shard_entry_path(e, name);
  bool recent = link && lstat(link, &st) == 0 && st.st_mtim.tv_sec <= now &&
                st.st_mtim.tv_sec > now - SHARD_WANTED_FRESH;
  bool there =
      recent && open_link(e, name, found) && keep_if(is_true(e->wanted, found->listing), found);
  if (!there && link) {
    unlink(link);
  }
  free(link);
  return there;
}

bool shard_entry_is_pinned(const struct shard_entry *e, const char *job) {
  char name[SHARD_CACHE_NAME];
  struct stat st;
  name_pin(e, job, name);
  char *link = shard_entry_path(e, name);
  bool there = link && stat(link, &st) == 0;
  free(link);
  return there;
}

/* ---- putting ---- */

void shard_entry_say_digest(const struct shard_entry *e, const struct shard_listing *l,
                            const char *what) {
  struct shard_listing_info info;
  char text[900];
  shard_listing_info(l, &info);
  snprintf(text, sizeof(text), "directory '%.300s' %s (%llu entries, digest %.16s)",
           shard_wanted_label(e->wanted), what, (unsigned long long)info.entries, info.digest);
  shard_log(SHARD_LOG_WARN, text);
}

bool shard_entry_pin(const struct shard_entry *e, const char *job, struct shard_found *found) {
  char name[SHARD_CACHE_NAME];
  name_pin(e, job, name);
  char *link = shard_entry_path(e, name);
  struct shard_found theirs;
  bool others = shard_entry_find_pinned(e, job, &theirs), first = false;
  if (!others && link && !(first = symlink(found->name, link) == 0) && errno == EEXIST) {
    others = shard_entry_find_pinned(e, job, &theirs);
    if (!others && unlink(link) == 0 && symlink(found->name, link) == 0 && !e->wanted->since) {
      shard_entry_say_digest(
          e, found->listing,
          "has lost the listing that this job began with; from now on ranks have a new one");
    }
  }
  free(link);
  if (others) {
    shard_listing_close(found->listing);
    *found = theirs;
  }
  return first;
}

int shard_entry_link(const struct shard_entry *e, const char *target, const char *name) {
  char own[SHARD_CACHE_NAME];
  shard_cache_name_print(SHARD_CACHE_CURRENT_NEW, e->key, (uint64_t)getpid(), own);
  char *link = shard_entry_path(e, name), *made = shard_entry_path(e, own);
  int rc = -ENOMEM;
  if (link && made) {
    unlink(made);
    rc = symlink(target, made) == 0 && rename(made, link) == 0 ? 0 : -errno;
    if (rc != 0) {
      unlink(made);
    }
  }
  free(link);
  free(made);
  return rc;
}

char *shard_entry_new_file(const struct shard_entry *e) {
  char name[SHARD_CACHE_NAME];
  shard_cache_name_print(SHARD_CACHE_NEW, e->key, (uint64_t)getpid(), name);
  return shard_entry_path(e, name);
}

/* What is salted differs between two files of the same names. */
static void forget_salt(struct shard_header *h) {
  struct shard_table_header *tables[] = {&h->names, &h->others};
  for (size_t i = 0; i < 2; i++) {
    tables[i]->index.crc = tables[i]->extent.crc = tables[i]->attribute_index.crc = 0;
  }
  h->dirs_by_inode.crc = h->header_crc = h->salt = 0;
}

/* A number that tells this version of the listing from others. */
static uint64_t version_of(const struct shard_entry *e, const struct shard_listing *l) {
  struct shard_header header = *l->header;
  if (shard_wanted_is_remote(e->wanted)) {
    /* The same names again take the place of those before: no directory's mtime tells them apart.
     */
    header.listed_sec = header.listed_nsec = 0;
    forget_salt(&header);
  }
  return shard_fnv(SHARD_FNV_BASIS, &header, sizeof(header));
}

int shard_entry_install(const struct shard_entry *e, const char *file, struct shard_found *found,
                        char *err, size_t size) {
  struct shard_listing *l;
  char name[SHARD_CACHE_NAME];
  int rc = shard_safe_listing(file, &l);
  found->listing = NULL;
  if (rc != 0) {
    unlink(file);
    return shard_error_set(err, size, rc, "shardctl left no usable listing in '%.300s': %s", file,
                           strerror(-rc));
  }
  shard_cache_name_print(SHARD_CACHE_LISTING, e->key, version_of(e, l), found->name);
  shard_listing_close(l);
  char *path = shard_entry_path(e, found->name);
  rc = !path ? -ENOMEM : rename(file, path) == 0 ? 0 : -errno;
  if (rc != 0) {
    unlink(file);
  } else {
    shard_cache_name_print(SHARD_CACHE_CURRENT, e->key, 0, name);
    rc = shard_entry_link(e, found->name, name);
    if (rc != 0) {
      unlink(path);
    }
  }
  if (rc != 0) {
    shard_error_set(err, size, rc, "cannot put the listing into '%.300s': %s", e->cache,
                    strerror(-rc));
  } else {
    rc = shard_safe_listing(path, &found->listing);
    if (rc != 0) {
      shard_error_set(err, size, rc, "cannot open '%.300s': %s", path, strerror(-rc));
    }
  }
  free(path);
  return rc;
}

/* Whether a part, whose base has so many bytes, is of a stream whose builder died before its end.
 */
static bool is_broken_part(const struct shard_entry *e, const char *name, size_t base) {
  char *path = NULL;
  bool broken = asprintf(&path, "%s/%.*s", e->cache, (int)base, name) >= 0 &&
                shard_stream_get_state(path) == SHARD_STREAM_BROKEN;
  free(path);
  return broken;
}

/* The lock is ours: of the entry's own builders none lives. */
static bool is_leftover(const struct shard_entry *e, int dir, const char *name) {
  struct stat st;
  size_t base;
  enum shard_cache_kind kind = shard_cache_name_parse(name, NULL, &base);
  bool own = strncmp(name, e->key, SHARD_CACHE_KEY - 1) == 0;
  bool jobs = strncmp(name, e->job_key, SHARD_CACHE_KEY - 1) == 0;
  switch (kind) {
  case SHARD_CACHE_NEW:
  case SHARD_CACHE_CURRENT_NEW:
    return own;
  case SHARD_CACHE_PART:
    return own && is_broken_part(e, name, base);
  case SHARD_CACHE_STREAM:
  case SHARD_CACHE_JOB:
  case SHARD_CACHE_OBJECT:
    return (kind == SHARD_CACHE_STREAM ? own : jobs) &&
           fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_mtim.tv_sec < time(NULL) - MONTH;
  default:
    return false;
  }
}

void shard_entry_remove_leftovers(const struct shard_entry *e) {
  DIR *dir = shard_real()->opendir(e->cache);
  const struct dirent *entry;
  while (dir && (entry = shard_real()->readdir(dir))) {
    if (is_leftover(e, dirfd(dir), entry->d_name)) {
      unlinkat(dirfd(dir), entry->d_name, 0);
    }
  }
  if (dir) {
    shard_real()->closedir(dir);
  }
}
