/* SPDX-License-Identifier: MIT */
#include "cache/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fnv.h"
#include "base/kernel.h"
#include "base/path.h"
#include "cache/judge.h"
#include "cache/safe.h"
#include "config/config.h"
#include "host/builder.h"
#include "host/real.h"
#include "libshard.h"
#include "listing/identity.h"
#include "listing/listing.h"

#define MONTH (30L * 24 * 3600) /* seconds */

/* ---- the keys ---- */

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

/* everywhere: one key, whatever the manifest holds by now, and wherever the bucket is. */
static void make_key(const struct shard_request *r, const uint8_t boot[SHARD_BOOT_SIZE],
                     bool everywhere, char key[SHARD_CACHE_KEY]) {
  uint64_t a = SHARD_FNV_BASIS, b = 0x84222325cbf29ce4ULL;
  uint32_t version = SHARD_FORMAT_VERSION;
  const char *real = r->kind == SHARD_REQUEST_OBJECT ? "" : r->real; /* one for all directories */
  /* A manifest that is written anew has another key: its listing needs no other check. */
  const struct stat *st = &r->identity;
  int64_t identity[] = {(int64_t)st->st_ino, st->st_size,        st->st_mtim.tv_sec,
                        st->st_mtim.tv_nsec, st->st_ctim.tv_sec, st->st_ctim.tv_nsec};
  const struct {
    const void *data;
    size_t size;
  } parts[] = {{real, strlen(real) + 1},
               {r->options_text, strlen(r->options_text) + 1},
               {&version, sizeof(version)},
               {boot, SHARD_BOOT_SIZE},
               {r->origin, *r->origin ? strlen(r->origin) + 1 : 0},
               {identity, *r->origin && !everywhere ? sizeof(identity) : 0}};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    a = shard_fnv(a, parts[i].data, parts[i].size);
    b = shard_fnv(b ^ a, parts[i].data, parts[i].size);
  }
  bool here = shard_request_is_remote(r) && !everywhere;
  for (size_t i = 0; here && i < sizeof(places) / sizeof(places[0]); i++) {
    const char *value = builders_value(r, places[i]);
    a = shard_fnv(a, value ? value : "", value ? strlen(value) + 1 : 0);
    a = shard_fnv(a, "\n", 1);
    b = shard_fnv(b ^ a, "\n", 1);
  }
  snprintf(key, SHARD_CACHE_KEY, "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

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

int shard_store_locate(struct shard_request *r, char *err, size_t size) {
  const char *set = shard_config()->cache_dir;
  bool inside = *r->real != 0; /* a bucket has no inside */
  /* Before it is made there. */
  int rc = inside && set ? refuse_inside(r->real, set, err, size) : 0;
  if (rc == 0) {
    ssize_t n = shard_cache_dir(r->cache, PATH_MAX - SHARD_CACHE_NAME, err, size);
    rc = n < 0 ? (int)n : inside ? refuse_inside(r->real, r->cache, err, size) : 0;
  }
  /* Not before: it may put a file into the cache. */
  rc = rc == 0 ? shard_store_find_job(r, err, size) : rc;
  uint8_t boot[SHARD_BOOT_SIZE];
  int told = rc == 0 ? shard_identity_boot(boot) : rc;
  if (rc == 0 && told < 0) {
    rc = shard_error_set(err, size, told, "cannot tell this host's boot: %s", strerror(-told));
  }
  if (rc == 0) {
    /* Ranks may have endpoints of their own; an object is one for all of a job. */
    bool object = r->kind == SHARD_REQUEST_OBJECT;
    make_key(r, boot, object ? r->pin != NULL : !r->since, r->job_key);
    make_key(r, boot, object && r->pin, r->key);
  }
  return rc;
}

int shard_store_find_job(struct shard_request *r, char *err, size_t size) {
  int rc = r->for_job && !r->job[0] ? shard_job_get(r->job, SHARD_JOB_ROOM) : 0;
  if (rc > 0) {
    r->pin = r->job;
    if (r->round > 0) {
      sprintf(r->job + strlen(r->job), "\nround %llu", (unsigned long long)r->round);
    }
  }
  return rc >= 0 ? 0 : shard_error_set(err, size, rc, "cannot tell the job: %s", strerror(-rc));
}

char *shard_store_path(const struct shard_request *r, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", r->cache, name) < 0 ? NULL : path;
}

char *shard_store_file(const struct shard_request *r, enum shard_cache_kind kind, uint64_t number) {
  char name[SHARD_CACHE_NAME];
  shard_cache_name_print(kind, r->key, number, name);
  return shard_store_path(r, name);
}

/* ---- finding ---- */

bool shard_store_is_fresh(const struct stat *st) {
  time_t now = (time_t)(shard_clock_real_ns() / 1000000000);
  return st->st_mtim.tv_sec <= now && st->st_mtim.tv_sec > now - SHARD_STORE_FRESH;
}

uint64_t shard_store_pin_id(const char *pin) {
  return pin ? shard_fnv(SHARD_FNV_BASIS, pin, strlen(pin)) : 0;
}

/* Whether it is the one that is asked for: KEY may be another's, too. */
static bool is_asked_for(const struct shard_request *r, const struct shard_listing *l) {
  return strcmp(l->source, shard_request_source(r)) == 0 &&
         strcmp(l->options, r->options_text) == 0;
}

/* Keep what was found, or close it. Whether it is kept. */
static int keep_if(bool good, struct shard_found *found) {
  if (!good) {
    shard_listing_close(found->listing);
    found->listing = NULL;
  }
  return good;
}

/*
 * Open the listing that a link leads to, if it is the one that is asked for. 1; 0: there is none,
 * or it cannot be used; a negative errno: that cannot be told, and another one in its place would
 * let the ranks of a job differ.
 */
static int open_link(const struct shard_request *r, const char *link, struct shard_found *found) {
  found->listing = NULL;
  if (!link) {
    return -ENOMEM;
  }
  ssize_t n = readlink(link, found->name, sizeof(found->name) - 1);
  if (n <= 0) {
    return n == 0 || errno == ENOENT || errno == EINVAL || errno == ENOTDIR ? 0 : -errno;
  }
  found->name[n] = 0;
  if (strchr(found->name, '/')) {
    return 0;
  }
  char *file = shard_store_path(r, found->name);
  int rc = file ? shard_safe_listing(file, &found->listing) : -ENOMEM;
  free(file);
  if (rc != 0) {
    return shard_error_is_shortage(rc) || rc == -EINTR || rc == -EAGAIN ? rc : 0;
  }
  return keep_if(is_asked_for(r, found->listing), found);
}

static bool is_listed_since(const struct shard_listing *l, int64_t since) {
  int64_t listed = l->header->listed_sec * 1000000000LL + l->header->listed_nsec;
  return listed <= shard_clock_real_ns() && listed >= since;
}

/* Where a file system cannot be told from earlier ones, what was begun after the call will do. */
static bool is_true(const struct shard_request *r, const struct shard_listing *l) {
  return shard_judge_is_true(l, r->real, true) ||
         (is_listed_since(l, r->asked) && shard_judge_is_true(l, r->real, false));
}

/* As open_link(). */
static int find_current(const struct shard_request *r, struct shard_found *found) {
  char *link = shard_store_file(r, SHARD_CACHE_CURRENT, 0);
  int64_t since = r->since ? r->since : r->asked - SHARD_STORE_FRESH * 1000000000LL;
  int rc = open_link(r, link, found);
  if (rc > 0) {
    rc = keep_if(shard_request_is_remote(r) ? is_listed_since(found->listing, since)
                                            : is_true(r, found->listing),
                 found);
  }
  free(link);
  return rc;
}

/* The path of the link that pins a listing; malloc'd. */
static char *pin_link(const struct shard_request *r) {
  char name[SHARD_CACHE_NAME];
  shard_cache_name_print(SHARD_CACHE_JOB, r->job_key, shard_store_pin_id(r->pin), name);
  return shard_store_path(r, name);
}

/* As open_link(). One that is older than what is asked for is of an earlier program of the job. */
static int find_pinned(const struct shard_request *r, const char *link, struct shard_found *found) {
  int rc = open_link(r, link, found);
  return rc > 0 ? keep_if(!r->since || is_listed_since(found->listing, r->since), found) : rc;
}

int shard_store_find(const struct shard_request *r, struct shard_found *found, char *err,
                     size_t size) {
  bool once = shard_request_is_remote(r) && r->pin;
  char *link = r->pin ? pin_link(r) : NULL;
  int pinned = r->pin ? find_pinned(r, link, found) : 0;
  int current = pinned == 0 && !once ? find_current(r, found) : 0;
  int rc = pinned < 0 ? pinned : current;
  free(link);
  if (rc < 0) {
    return shard_error_set(err, size, rc, "cannot look into the cache directory '%.300s': %s",
                           r->cache, strerror(-rc));
  }
  return pinned > 0 ? SHARD_STORE_PINNED : current > 0 ? SHARD_STORE_CURRENT : SHARD_STORE_NONE;
}

/* ---- putting ---- */

void shard_store_say_digest(const struct shard_request *r, const struct shard_listing *l,
                            const char *what) {
  struct shard_listing_info info;
  char text[1300];
  shard_listing_info(l, &info);
  snprintf(text, sizeof(text), "directory '%.300s' %.800s (%llu entries, digest %.16s)",
           *r->real ? r->real : r->origin, what, (unsigned long long)info.entries, info.digest);
  shard_log(SHARD_LOG_WARN, text);
}

/* 1: made. 0: this user may not write to the cache, and so can make no listing either: it has what
 * is current for all. Or a negative errno. */
static int make_pin(const struct shard_request *r, const char *name, const char *link) {
  if (symlink(name, link) == 0) {
    return 1;
  }
  int rc = -errno;
  bool closed = euidaccess(r->cache, W_OK) != 0 && (errno == EROFS || errno == EACCES);
  return closed ? 0 : rc;
}

int shard_store_pin(const struct shard_request *r, struct shard_found *found, bool *first,
                    char *err, size_t size) {
  char *link = pin_link(r);
  struct shard_found theirs;
  int others, rc = 0;
  bool was_there = false, lost = false;
  while ((others = find_pinned(r, link, &theirs)) == 0) {
    if (was_there) { /* and cannot be used */
      lost = unlink(link) == 0;
    }
    rc = make_pin(r, found->name, link);
    if (rc != -EEXIST || (was_there && !lost)) {
      break;
    }
    was_there = true; /* another process may have made it just now */
  }
  free(link);
  *first = others == 0 && rc > 0 && !lost;
  if (rc > 0 && lost && !r->since) {
    shard_store_say_digest(
        r, found->listing,
        "has lost the listing that this job began with; from now on ranks have a new one");
  }
  rc = others < 0 ? others : others == 0 && rc < 0 ? rc : 0;
  if (others > 0 || rc != 0) {
    shard_listing_close(found->listing);
    found->listing = NULL;
  }
  if (others > 0) {
    *found = theirs;
  }
  return rc == 0 ? 0
                 : shard_error_set(err, size, rc,
                                   "cannot note in the cache directory '%.300s' which listing this "
                                   "job has: %s",
                                   r->cache, strerror(-rc));
}

int shard_store_link(const struct shard_request *r, const char *target, const char *name) {
  char *link = shard_store_path(r, name);
  char *made = shard_store_file(r, SHARD_CACHE_CURRENT_NEW, (uint64_t)getpid());
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

/* What is salted differs between two files of the same names. */
static void forget_salt(struct shard_header *h) {
  struct shard_table_header *tables[] = {&h->names, &h->others};
  for (size_t i = 0; i < 2; i++) {
    tables[i]->index.crc = tables[i]->extent.crc = tables[i]->attribute_index.crc = 0;
  }
  h->dirs_by_inode.crc = h->header_crc = h->salt = 0;
}

/* A number that tells this version of the listing from others. */
static uint64_t version_of(const struct shard_request *r, const struct shard_listing *l) {
  struct shard_header header = *l->header;
  if (shard_request_is_remote(r)) {
    /* The same names again take the place of those before: no mtime tells them apart. */
    header.listed_sec = header.listed_nsec = 0;
    forget_salt(&header);
  }
  return shard_fnv(SHARD_FNV_BASIS, &header, sizeof(header));
}

int shard_store_install(const struct shard_request *r, const char *file, struct shard_found *found,
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
  shard_cache_name_print(SHARD_CACHE_LISTING, r->key, version_of(r, l), found->name);
  shard_listing_close(l);
  char *path = shard_store_path(r, found->name);
  rc = !path ? -ENOMEM : rename(file, path) == 0 ? 0 : -errno;
  if (rc != 0) {
    unlink(file);
  } else {
    shard_cache_name_print(SHARD_CACHE_CURRENT, r->key, 0, name);
    rc = shard_store_link(r, found->name, name);
    if (rc != 0) {
      unlink(path);
    }
  }
  if (rc != 0) {
    shard_error_set(err, size, rc, "cannot put the listing into '%.300s': %s", r->cache,
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

/* The lock is ours: of the key's own builders none lives. */
static bool is_leftover(const struct shard_request *r, int dir, const char *name) {
  struct stat st;
  enum shard_cache_kind kind = shard_cache_name_parse(name, NULL, NULL);
  bool own = strncmp(name, r->key, SHARD_CACHE_KEY - 1) == 0;
  bool jobs = strncmp(name, r->job_key, SHARD_CACHE_KEY - 1) == 0;
  switch (kind) {
  case SHARD_CACHE_NEW:
  case SHARD_CACHE_CURRENT_NEW:
    return own;
  case SHARD_CACHE_JOB:
  case SHARD_CACHE_OBJECT:
    return jobs && shard_kernel_stat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_mtim.tv_sec < shard_clock_real_ns() / 1000000000 - MONTH;
  default:
    return false;
  }
}

void shard_store_remove_leftovers(const struct shard_request *r) {
  DIR *dir = shard_real()->opendir(r->cache);
  const struct dirent *entry;
  while (dir && (entry = shard_real()->readdir(dir))) {
    if (is_leftover(r, dirfd(dir), entry->d_name)) {
      unlinkat(dirfd(dir), entry->d_name, 0);
    }
  }
  if (dir) {
    shard_real()->closedir(dir);
  }
}
