/* SPDX-License-Identifier: MIT */
/*
 * view.c - the shard view of directories: the datasets, and which of them a directory is of.
 *
 * A directory is ours if going up from it meets a dataset's root, compared by device and inode, so
 * it does not matter by which path, link or descriptor it was opened (place.c). Only then is the
 * dataset's listing opened, and built if need be; under the hash strategy there is none. The
 * directory's place in the listing is its path from the root; where the listing has a directory
 * of its inode and mtime, there is no need to look for the path.
 *
 * A process keeps the listing it began with, and so does a job (cache.c): names that came later
 * are not seen. Of nested datasets the innermost serves a directory; the positions that its files
 * have in the outer one's listing are holes there, so that the shares of each are equal.
 */
#include "view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/path.h"
#include "base/xxh64.h"
#include "cache/cache.h"
#include "cache/fetch.h"
#include "cache/given.h"
#include "cache/stream.h"
#include "config/config.h"
#include "config/dataset.h"
#include "config/launcher.h"
#include "config/pattern.h"
#include "listing/listing.h"
#include "listing/options.h"
#include "shard/shard.h"
#include "stats/stats.h"
#include "view/place.h"
#include "view/serve.h"

/* The listing of one epoch, where SHARD_LISTING has one for each (%e). */
struct edition {
  struct edition *older;
  uint64_t epoch;
  struct shard_listing *listing; /* NULL: */
  int error;                     /* why there is none; reported */
};

struct dataset {
  const char *path;
  const char *url;  /* the s3:// prefix it stands for; NULL: none */
  atomic_int state; /* a slot for what follows */
  struct shard_listing *listing;
  struct shard_stream *stream; /* under hash, of a bucket; then there is no listing */
  char **nested;               /* where the roots of other datasets lie in this one */
  struct shard_hole *holes;    /* the positions that those take, ascending */
  size_t nested_count, holes_count;
  bool told;          /* of an error that may pass */
  int error;          /* why there is no listing; negative errno, reported */
  atomic_int opening; /* a slot for a new edition; never READY */
  _Atomic(struct edition *) editions;
  _Atomic uint64_t
      passes; /* twice the epoch, and one more once the root has been read to its end */
};

/*
 * Things that are filled once. A slot is EMPTY, READY, or the pid of the process that fills it:
 * a child forked in the middle finds its parent's pid there and begins anew.
 */
enum { EMPTY = 0, READY = -1 };
static struct {
  atomic_int state;
  struct dataset *datasets;
  struct shard_climb_root *roots; /* of the datasets, as first seen */
  size_t count;
  struct shard_world world;
  struct shard_options options;
  char options_text[SHARD_OPTIONS_TEXT];
  /* SHARD_LISTING: by its name a manifest; with %r, so that it is the rank's share; with %e. */
  bool manifest, own, each_epoch;
  int error;
  char fault[500]; /* to be said once a dataset is listed */
} setup;

static atomic_int listings;      /* opened */
static atomic_int view_now = -1; /* enum shard_view, once decided */
enum complaint { ABOUT_RANK, ABOUT_DATASET, ABOUT_DAMAGE, ABOUT_LISTING, COMPLAINTS };
static atomic_bool complained[COMPLAINTS];

static void nap(void) { nanosleep(&(struct timespec){0, 1000000}, NULL); }

static _Thread_local int cancelable; /* as it was before a slot was taken */

/* See enter(). */
__attribute__((noinline)) static int enter_slowly(atomic_int *slot) {
  for (int me = (int)getpid();;) {
    int state = atomic_load_explicit(slot, memory_order_acquire);
    if (state == READY) {
      return 1;
    }
    if (state != me && atomic_compare_exchange_strong(slot, &state, me)) {
      /* A thread that was cancelled meanwhile would leave all others waiting. */
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
      return 0;
    }
    nap();
  }
}

/* 0: *slot is ours to fill, and then to leave(); 1: it is READY. */
static inline int enter(atomic_int *slot) {
  return atomic_load_explicit(slot, memory_order_acquire) == READY ? 1 : enter_slowly(slot);
}

static void leave(atomic_int *slot, int state) {
  atomic_store_explicit(slot, state, memory_order_release);
  pthread_setcancelstate(cancelable, NULL);
}

static void complain_once(enum complaint about, const char *text) {
  if (!atomic_exchange(&complained[about], true)) {
    shard_log(SHARD_LOG_ERROR, text);
  }
}

enum shard_view shard_view_asked(void) { return shard_config()->view; }

void shard_view_set(enum shard_view view) {
  atomic_store(&view_now, (int)view);
  shard_stats_view(view);
}

static enum shard_view current(void) {
  int view = atomic_load_explicit(&view_now, memory_order_acquire);
  if (view < 0) {
    const struct shard_config *config = shard_config();
    view = (int)config->view;
    if (view == SHARD_VIEW_AUTO) {
      view = config->dataset ? SHARD_VIEW_SHARD : SHARD_VIEW_OFF;
    }
    int undecided = -1;
    if (!atomic_compare_exchange_strong(&view_now, &undecided, view)) {
      view = undecided;
    }
  }
  return (enum shard_view)view;
}

bool shard_view_active(void) {
  const struct shard_config *config = shard_config();
  if (config->error[0] && config->view != SHARD_VIEW_OFF) {
    shard_config_complain();
  }
  return config->dataset && current() == SHARD_VIEW_SHARD;
}

/* What kind of thing SHARD_LISTING is. */
static void look_at_listing(const struct shard_config *config) {
  const char *listing = config->listing;
  if (!listing || setup.error) {
    return;
  }
  setup.manifest = shard_manifest_named(listing);
  if (setup.manifest) {
    setup.options.include[0] = 0; /* what it has is what there is */
  }
  setup.own = shard_pattern_has(listing, 'r');
  setup.each_epoch = shard_pattern_has(listing, 'e');
  bool shared = !setup.manifest && !setup.own && !setup.each_epoch;
  const char *why =
      shared                                    ? NULL
      : config->strategy == SHARD_STRATEGY_HASH ? "SHARD_STRATEGY=hash takes none; unset one"
      : setup.count != 1                        ? "SHARD_DATASET must name one directory"
      : config->listing_first ? "SHARD_LISTING_BUILD=first goes with one listing for all ranks"
                              : NULL;
  if (why) {
    snprintf(setup.fault, sizeof(setup.fault),
             "SHARD_LISTING='%.200s' is a manifest, or a list for each rank or epoch: %s", listing,
             why);
    setup.error = -EINVAL;
  }
}

static void set_up(void) {
  const struct shard_config *config = shard_config();
  /* A launcher has no rank, and may list what it likes elsewhere: said when it matters. */
  if (config->error[0] || shard_world_get(&setup.world, setup.fault, sizeof(setup.fault)) != 0) {
    setup.error = -EINVAL;
  }
  setup.options = (struct shard_options){.hidden = true, .attributes = true};
  if (config->include) {
    strcpy(setup.options.include, config->include);
  }
  shard_options_format(&setup.options, setup.options_text, sizeof(setup.options_text));
  size_t room = 1;
  for (const char *p = config->dataset; *p; p++) {
    room += *p == ':';
  }
  setup.datasets = calloc(room, sizeof(*setup.datasets));
  setup.roots = calloc(room, sizeof(*setup.roots));
  struct shard_dataset_item item;
  for (const char *p = config->dataset;
       setup.datasets && setup.roots && (p = shard_dataset_next(p, &item));) {
    struct dataset *d = &setup.datasets[setup.count];
    char *path = strndup(item.path, item.path_length),
         *url = item.url ? strndup(item.url, item.url_length) : NULL;
    struct stat st;
    char text[400];
    if (!path || (item.url && !url)) {
      setup.error = -ENOMEM;
      free(path);
      free(url);
      break;
    }
    int fault = stat(path, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (fault) {
      snprintf(text, sizeof(text), "SHARD_DATASET='%.256s': %s; correct it, or make the directory",
               path, strerror(fault));
      complain_once(ABOUT_DATASET, text);
    }
    atomic_init(&d->passes, 2 * config->epoch);
    d->path = path;
    d->url = url;
    setup.roots[setup.count].path = path;
    shard_climb_look(&setup.roots[setup.count++]);
  }
  if (!setup.datasets || !setup.roots) {
    setup.error = -ENOMEM;
  }
  look_at_listing(config);
}

/* ---- a dataset's listing ----------------------------------------------------------------------
 */

/* Positions of the names below directory `path`. */
static int positions_below(const struct shard_table *t, const char *path, struct shard_hole *out) {
  char *key = NULL;
  int length = asprintf(&key, "%s/", path);
  if (length < 0) {
    return -ENOMEM;
  }
  int rc = shard_table_below(t, key, (size_t)length, &out->begin, &out->end);
  free(key);
  return rc;
}

static int by_position(const void *pa, const void *pb) {
  const struct shard_hole *a = pa, *b = pb;
  if (a->begin != b->begin) {
    return a->begin < b->begin ? -1 : 1;
  }
  return (a->end < b->end) - (a->end > b->end);
}

/* What other datasets lie inside this one, and the positions that they take. */
static int find_nested(struct dataset *d) {
  char *outer = realpath(d->path, NULL);
  int rc = outer ? 0 : -errno;
  d->nested = calloc(setup.count, sizeof(*d->nested));
  d->holes = calloc(setup.count, sizeof(*d->holes));
  if (!d->nested || !d->holes) {
    rc = -ENOMEM;
  }
  for (size_t i = 0; i < setup.count && rc == 0 && outer; i++) {
    char *inner = &setup.datasets[i] == d ? NULL : realpath(setup.datasets[i].path, NULL);
    const char *rest = inner ? shard_dataset_inside(inner, outer) : NULL;
    bool inside = rest;
    struct stat st;
    struct shard_dir_entry known;
    if (inner && !inside && stat(inner, &st) == 0 &&
        shard_listing_dir_find(d->listing, st.st_dev, st.st_ino, &known) && *known.path) {
      rest = known.path; /* it is mounted from inside this one */
      inside = true;
    }
    if (inside) {
      char *path = strdup(rest);
      rc = path ? positions_below(&d->listing->names, path, &d->holes[d->nested_count]) : -ENOMEM;
      d->nested[d->nested_count++] = path;
    }
    free(inner);
  }
  free(outer);
  if (rc == 0) {
    /* Holes lie apart or in one another; keep the outer ones, which come first. */
    qsort(d->holes, d->nested_count, sizeof(*d->holes), by_position);
    for (size_t i = 0; i < d->nested_count; i++) {
      if (d->holes_count == 0 || d->holes[i].begin >= d->holes[d->holes_count - 1].end) {
        d->holes[d->holes_count++] = d->holes[i];
      }
    }
  }
  return rc;
}

/* What SHARD_LISTING has for this rank and epoch. */
static int open_own(const struct dataset *d, uint64_t epoch, struct shard_listing **out, char *err,
                    size_t size) {
  char *file = malloc(PATH_MAX), *job = malloc(SHARD_LAUNCHER_JOB_SIZE), *url = NULL;
  char real[PATH_MAX];
  int rc = -ENOMEM;
  bool known = job && shard_launcher_job(job, SHARD_LAUNCHER_JOB_SIZE);
  if (!file || shard_pattern_expand(shard_config()->listing, (uint64_t)setup.world.rank, epoch,
                                    file, PATH_MAX) < 0) {
    snprintf(err, size, "SHARD_LISTING: too long, or out of memory");
  } else if (strncmp(file, "s3://", 5) == 0 &&
             (!(url = strdup(file)) || (rc = shard_fetch(d->path, url, known ? job : NULL, file,
                                                         PATH_MAX, err, size)) != 0)) {
    if (!url) {
      snprintf(err, size, "out of memory");
    }
  } else if (setup.manifest) {
    rc = shard_cache_open_manifest(d->path, file, known ? job : NULL, out, err, size);
  } else if (!realpath(d->path, real)) {
    rc = -errno;
    snprintf(err, size, "SHARD_DATASET='%.256s': %s", d->path, strerror(errno));
  } else {
    rc = shard_given_open(file, url ? url : file, real, &setup.options, out, err, size);
    if (rc == 0) {
      rc = -EINVAL;
      snprintf(err, size,
               "SHARD_LISTING='%.300s' is of another directory, or was made with other options",
               file);
    }
    rc = rc > 0 ? 0 : rc;
  }
  if (rc < 0 && url) {
    shard_fetch_rename(file, url, err, size);
  }
  free(url);
  free(job);
  free(file);
  return rc;
}

static bool is_streamed(const struct dataset *d) {
  return d->url && shard_config()->strategy == SHARD_STRATEGY_HASH;
}

static int open_listing(struct dataset *d, char *err, size_t size) {
  if (setup.manifest || setup.own) {
    return open_own(d, shard_config()->epoch, &d->listing, err, size);
  }
  char *job = malloc(SHARD_LAUNCHER_JOB_SIZE);
  bool known = job && shard_launcher_job(job, SHARD_LAUNCHER_JOB_SIZE);
  const char *of = known ? job : NULL;
  int rc =
      is_streamed(d)
          ? shard_cache_open_stream(d->path, d->url, setup.options_text, of, &d->stream, err, size)
      : d->url
          ? shard_cache_open_bucket(d->path, d->url, setup.options_text, of, &d->listing, err, size)
          : shard_cache_open(d->path, setup.options_text, of, &d->listing, err, size);
  free(job);
  if (rc == 0 && d->listing) {
    rc = find_nested(d);
    if (rc != 0) {
      snprintf(err, size, "cannot use the listing of '%.300s': %s", d->path, strerror(-rc));
    }
  }
  return rc;
}

/* As if nothing had been opened. */
static void unload(struct dataset *d) {
  for (size_t i = 0; i < d->nested_count; i++) {
    free(d->nested[i]);
  }
  free(d->nested);
  free(d->holes);
  shard_listing_close(d->listing);
  d->nested = NULL;
  d->holes = NULL;
  d->nested_count = d->holes_count = 0;
  d->listing = NULL;
  shard_stream_close(d->stream);
  d->stream = NULL;
}

/* A bucket's prefix with no key below it is rather a wrong one: nobody should read nothing for
 * that. */
static void warn_if_empty(const struct dataset *d) {
  char text[900], err[700];
  const struct shard_stream_part *part = NULL;
  bool empty = d->stream ? shard_stream_next(d->stream, false, &part, err, sizeof(err)) == 0
                         : d->listing && d->listing->names.count == 0;
  /* A rank's own list may well be empty. */
  if (d->url && empty && !setup.manifest && !setup.own && setup.world.local_rank <= 0) {
    snprintf(text, sizeof(text),
             "SHARD_DATASET='%.256s=%.300s': there is no key %s%.100s%sbelow that prefix, so the "
             "directory shows no files",
             d->path, d->url, *setup.options.include ? "of SHARD_INCLUDE='" : "",
             setup.options.include, *setup.options.include ? "' " : "");
    shard_log(SHARD_LOG_WARN, text);
  }
}

static void load(struct dataset *d) {
  char err[700], text[900];
  /* A parent may have been in the middle of this when it forked; what it had is lost. */
  d->nested = NULL;
  d->holes = NULL;
  d->nested_count = d->holes_count = 0;
  d->listing = NULL;
  d->stream = NULL;
  d->error = open_listing(d, err, sizeof(err));
  if (d->error == -EACCES) {
    d->error = -EPERM; /* walkers take the other for the directory's own, and go on */
  }
  if (d->error != 0) {
    snprintf(text, sizeof(text), "%s; listing calls on '%.100s' fail", err, d->path);
    if (!shard_error_is_shortage(d->error) || !d->told) {
      shard_log(SHARD_LOG_ERROR, text);
    }
    d->told = true;
    unload(d);
  } else if (d->listing && shard_config()->log >= SHARD_LOG_INFO) {
    struct shard_listing_info info;
    shard_listing_info(d->listing, &info);
    snprintf(text, sizeof(text), "serving '%.300s': %llu entries, digest %.16s", d->path,
             (unsigned long long)info.entries, info.digest);
    shard_log(SHARD_LOG_INFO, text);
  }
  if (d->error == 0) {
    warn_if_empty(d);
  }
}

/* The dataset's listing, or why there is none. What may pass is tried again. */
static int have_listing(struct dataset *d) {
  if (enter(&d->state) == 0) {
    load(d);
    int rc = d->error;
    atomic_fetch_add(&listings, rc == 0);
    leave(&d->state, shard_error_is_shortage(rc) ? EMPTY : READY);
    return rc;
  }
  return d->error;
}

/* The edition of an epoch, if it is there already. */
static struct edition *find_edition(struct dataset *d, uint64_t epoch) {
  struct edition *e = atomic_load_explicit(&d->editions, memory_order_acquire);
  while (e && e->epoch != epoch) {
    e = e->older;
  }
  return e;
}

/* The listing of an epoch. It stays open: what is being read of it has no end that we know. */
static int have_edition(struct dataset *d, uint64_t epoch, const struct shard_listing **out) {
  struct edition *e = find_edition(d, epoch);
  int rc = 0;
  if (!e && enter(&d->opening) == 0) {
    e = find_edition(d, epoch); /* another thread's */
    if (!e && (e = calloc(1, sizeof(*e)))) {
      char err[700], text[900];
      e->epoch = epoch;
      rc = e->error = open_own(d, epoch, &e->listing, err, sizeof(err));
      if (rc != 0) {
        snprintf(text, sizeof(text), "%s; listing calls on '%.100s' fail in epoch %llu", err,
                 d->path, (unsigned long long)epoch);
        shard_log(SHARD_LOG_ERROR, text);
      }
      if (shard_error_is_shortage(rc)) {
        free(e);
        e = NULL;
      } else {
        e->older = atomic_load(&d->editions);
        atomic_store_explicit(&d->editions, e, memory_order_release);
      }
    } else if (!e) {
      rc = -ENOMEM;
    }
    leave(&d->opening, EMPTY);
  }
  if (e) {
    rc = e->error == -EACCES ? -EPERM : e->error;
    *out = e->listing;
  }
  return rc;
}

/* ---- which dataset, and where in it ------------------------------------------------------------
 */

struct location {
  struct dataset *dataset;
  char *path; /* from its root; malloc'd */
};

/* By a listing that is open, if it has the directory as it is now. */
static bool locate_listed(const struct statx *st, struct location *out) {
  for (size_t i = 0; i < setup.count; i++) {
    struct dataset *d = &setup.datasets[i];
    struct shard_dir_entry known;
    if (atomic_load_explicit(&d->state, memory_order_acquire) != READY || !d->listing ||
        !shard_listing_dir_find(d->listing, makedev(st->stx_dev_major, st->stx_dev_minor),
                                st->stx_ino, &known) ||
        known.id.mtime_sec != st->stx_mtime.tv_sec ||
        known.id.mtime_nsec != st->stx_mtime.tv_nsec) {
      continue;
    }
    const char *path = known.path;
    for (size_t k = 0; k < d->nested_count; k++) {
      if (shard_path_below(path, d->nested[k])) {
        return false; /* the inner dataset's; go up to it */
      }
    }
    out->dataset = d;
    out->path = strdup(path);
    return out->path != NULL;
  }
  return false;
}

/* 1, 0 or negative errno, as for shard_place_find(). */
static int locate(int fd, const struct statx *st, struct location *out) {
  if (atomic_load_explicit(&listings, memory_order_relaxed) > 0 && locate_listed(st, out)) {
    return 1;
  }
  size_t which;
  int rc = shard_place_find(fd, st, setup.roots, setup.count, &which, &out->path);
  if (rc == 1) {
    out->dataset = &setup.datasets[which];
  }
  return rc;
}

/* Whether the listing has the directory `path`: it was there when the listing was made. */
static int was_listed(const struct shard_listing *l, const char *path, size_t length) {
  const struct shard_table *t = &l->others;
  struct shard_position p = {.name = __builtin_alloca(t->longest + 1)};
  struct shard_attributes attributes;
  if (length == 0) {
    return 1;
  }
  int64_t at = shard_table_lower_bound(t, path, length);
  if (at < 0 || (uint64_t)at >= t->count) {
    return at < 0 ? (int)at : 0;
  }
  int rc = shard_table_seek(&p, t, (uint64_t)at);
  if (rc == 0) {
    rc = shard_table_next(&p);
  }
  if (rc <= 0 || p.length != length || memcmp(p.name, path, length) != 0) {
    return rc < 0 ? rc : 0;
  }
  rc = shard_table_attributes(t, (uint64_t)at / SHARD_BLOCK_NAMES, &attributes);
  return rc ? rc : attributes.type[(uint64_t)at % SHARD_BLOCK_NAMES] == DT_DIR;
}

/* Whether the stream has the directory; waits until it has come. */
static int was_streamed(struct shard_stream *stream, const char *path, size_t length, char *err,
                        size_t size) {
  const struct shard_stream_part *part = NULL;
  int rc = length == 0;
  while (rc == 0 && (rc = shard_stream_next(stream, true, &part, err, size)) == 1) {
    rc = was_listed(part->listing, path, length);
    if (rc < 0) {
      snprintf(err, size, "'%.300s' is damaged; remove it", part->listing->file);
    }
  }
  return rc;
}

/* ---- passes ------------------------------------------------------------------------------------
 */

/* The epoch for a root that is about to be read from its beginning. */
static uint64_t begin_pass(_Atomic uint64_t *counter) {
  uint64_t passes = atomic_load(counter);
  while (passes & 1) {
    if (atomic_compare_exchange_weak(counter, &passes, passes + 1)) {
      passes++;
    }
  }
  return passes / 2;
}

static void end_pass(const struct shard_served *s) {
  uint64_t passes = 2 * s->epoch;
  if (s->passes && s->base == 0) {
    atomic_compare_exchange_strong(s->passes, &passes, passes + 1);
  }
}

/* ---- serving
 * -------------------------------------------------------------------------------------- */

static int damaged(const struct shard_listing *l, int rc) {
  if (rc != -EBADMSG) {
    return rc;
  }
  char text[700];
  snprintf(text, sizeof(text), "listing '%.300s' of '%.256s' is damaged; remove it", l->file,
           l->source);
  complain_once(ABOUT_DAMAGE, text);
  return -EIO;
}

/* A stream cannot be read on. */
static int broken(int rc, const char *err) {
  char text[800];
  snprintf(text, sizeof(text), "%s; listing calls fail", err);
  if (!shard_error_is_shortage(rc)) {
    complain_once(ABOUT_DAMAGE, text);
  }
  return rc == -EACCES ? -EPERM : rc == -EBADMSG ? -EIO : rc;
}

static int choose_stream(struct shard_served *s) {
  char err[700];
  int rc = was_streamed(s->stream, s->path, s->base ? s->base - 1 : 0, err, sizeof(err));
  s->how = rc > 0 ? SHARD_SERVED_STREAMED : SHARD_SERVED_UNLISTED;
  return rc < 0 ? broken(rc, err) : 0;
}

/* What SHARD_LISTING has may be what the user wants to be read, and no more. */
static void warn_of_listing(void) {
  char text[500];
  const char *listing = shard_config()->listing;
  if (listing && !atomic_exchange(&complained[ABOUT_LISTING], true) &&
      setup.world.local_rank <= 0) {
    snprintf(text, sizeof(text),
             "SHARD_LISTING='%.300s' is not used: SHARD_STRATEGY=hash takes none; unset one",
             listing);
    shard_log(SHARD_LOG_WARN, text);
  }
}

/* The rank's share of the listing, or of the stream, in the epoch. */
static int choose_share(struct shard_served *s) {
  const struct shard_config *config = shard_config();
  struct dataset *d = s->dataset;
  bool hash = config->strategy == SHARD_STRATEGY_HASH;
  /* A list for each epoch has been shuffled already, unless there is a seed to do it again. */
  bool shuffle = config->shuffle && (config->seeded || !setup.each_epoch);
  s->key = shuffle ? shard_shuffle_key(config->seed, s->epoch) : 0;
  s->stats = -1;
  s->scope.listing = d->listing;
  if (setup.each_epoch) {
    s->error = have_edition(d, s->epoch, &s->scope.listing);
    if (s->error != 0) {
      return s->error;
    }
  }
  if (shard_stats_on()) {
    s->stats = shard_stats_root(d->path);
    shard_stats_pass(s->stats, s->epoch, shuffle);
  }
  uint64_t n = hash ? 0 : s->scope.listing->names.count;
  for (size_t i = 0; i < d->holes_count; i++) {
    n -= d->holes[i].end - d->holes[i].begin;
  }
  shard_share_init(&s->share, config->strategy, setup.own ? 0 : (uint32_t)setup.world.rank,
                   setup.own ? 1 : (uint32_t)setup.world.size, n, s->key);
  if (hash) {
    warn_of_listing();
    s->how = SHARD_SERVED_HASHED;
    s->stream = d->stream;
    return s->stream ? choose_stream(s) : 0;
  }
  if (setup.own || setup.each_epoch) {
    shard_stats_list(s->stats, s->epoch, s->scope.listing, setup.own);
  } else {
    shard_stats_listing(s->stats, s->scope.listing, n);
  }
  int rc = was_listed(s->scope.listing, s->path, s->base ? s->base - 1 : 0);
  s->how = rc > 0 ? SHARD_SERVED_LISTED : SHARD_SERVED_UNLISTED;
  if (rc > 0) {
    s->holes = d->holes;
    s->hole_count = d->holes_count;
    rc = shard_serve_prepare(s);
  }
  return rc < 0 ? damaged(s->scope.listing, rc) : 0;
}

/* Fill in everything but the path. */
static int prepare(struct shard_served *s, struct dataset *d, int fd) {
  const struct shard_config *config = shard_config();
  bool root = s->base == 0;
  s->dataset = d;
  s->options = &setup.options;
  s->epoch = config->epoch;
  if (config->epoch_auto) {
    s->passes = &d->passes;
    s->epoch =
        root && lseek(fd, 0, SEEK_CUR) == 0 ? begin_pass(s->passes) : atomic_load(s->passes) / 2;
  }
  return choose_share(s);
}

static int decide(int fd, struct shard_served **out) {
  struct statx st;
  struct location place = {0};
  if (enter(&setup.state) == 0) {
    setup.count = 0;
    set_up();
    leave(&setup.state, READY);
  }
  if (shard_climb_stat(fd, "", &st) != 0 || !S_ISDIR(st.stx_mode)) {
    return 0; /* libc says so better */
  }
  int rc = locate(fd, &st, &place);
  if (rc <= 0) {
    /* What lies below a directory we may not enter was not reached through the dataset. */
    return rc == -EACCES ? 0 : rc;
  }
  rc = setup.error;
  if (rc != 0 && setup.fault[0]) {
    complain_once(ABOUT_RANK, setup.fault);
  }
  bool divided = shard_config()->strategy != SHARD_STRATEGY_HASH && !setup.each_epoch;
  if (rc == 0 && (divided || is_streamed(place.dataset))) {
    rc = have_listing(place.dataset);
    /* Opened only now, it may know the directory by an older name: as it will from now on. */
    struct location listed;
    if (rc == 0 && locate_listed(&st, &listed)) {
      free(place.path);
      place = listed;
    }
  }
  size_t length = strlen(place.path);
  struct shard_served *s = rc == 0 ? calloc(1, sizeof(*s) + length + 2) : NULL;
  if (rc == 0 && !s) {
    rc = -ENOMEM;
  }
  if (rc == 0) {
    memcpy(s->path, place.path, length);
    s->base = length;
    if (length > 0) {
      s->path[s->base++] = '/';
    }
    rc = prepare(s, place.dataset, fd);
  }
  free(place.path);
  if (rc != 0) {
    free(s);
    return rc;
  }
  *out = s;
  return 0;
}

int shard_view_open(int fd, struct shard_served **out) {
  int saved = errno;
  *out = NULL;
  int rc = decide(fd, out);
  errno = saved;
  return rc;
}

void shard_view_close(struct shard_served *s) { free(s); }

ssize_t shard_view_read(struct shard_served *s, int fd, void *buf, size_t size, off_t *position) {
  int saved = errno;
  off_t own = 0;
  ssize_t n;
  if (s->error) {
    return s->error;
  }
  if (s->how != SHARD_SERVED_LISTED && s->how != SHARD_SERVED_STREAMED) {
    n = shard_serve_filtered(s, fd, buf, size);
  } else {
    char err[700] = "";
    off_t now = lseek(fd, 0, SEEK_CUR);
    own = position && (s->own_position || now < 0) ? *position : now;
    n = own < 0 ? -errno
        : s->how == SHARD_SERVED_LISTED
            ? shard_serve_listed(s, fd, buf, size, &own)
            : shard_serve_streamed(s, fd, buf, size, &own, err, sizeof(err));
    /* Where a directory's offset cannot be set, a stream keeps its own; a descriptor cannot. */
    if (n > 0 && lseek(fd, own, SEEK_SET) < 0) {
      s->own_position = true;
      n = position ? n : -errno;
    }
    if (position) {
      *position = own;
    }
    n = n >= 0             ? n
        : s->scope.listing ? damaged(s->scope.listing, (int)n)
        : *err             ? broken((int)n, err)
        : n == -EBADMSG    ? -EIO
                           : n;
  }
  if (n == 0) {
    end_pass(s);
  }
  errno = saved;
  return n;
}

int shard_view_rewind(struct shard_served *s) {
  uint64_t epoch = s->epoch;
  if (s->passes) {
    epoch = s->base == 0 ? begin_pass(s->passes) : atomic_load(s->passes) / 2;
  }
  if (epoch == s->epoch) {
    return 0;
  }
  s->epoch = epoch;
  return choose_share(s);
}

uint64_t shard_view_window_key(const struct shard_served *s) {
  bool hashed = s->how == SHARD_SERVED_HASHED || s->how == SHARD_SERVED_STREAMED;
  bool as_is = !hashed || s->key == 0 || shard_config()->window < 2;
  return as_is ? 0 : shard_xxh64(s->path, s->base, s->key) | 1;
}
