/* SPDX-License-Identifier: MIT */
#include "view/datasets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/path.h"
#include "base/xxh64.h"
#include "cache/job.h"
#include "config/config.h"
#include "config/dataset.h"
#include "config/launcher.h"
#include "config/pattern.h"
#include "listing/listing.h"
#include "view/once.h"
#include "view/place.h"

atomic_int shard_datasets_state;
struct shard_datasets shard_datasets_all;
static atomic_int listings; /* opened */

/* ---- set-up ------------------------------------------------------------- */

/* What kind of thing SHARD_LISTING is, and whether the other variables go with that. */
static void judge_listing(const struct shard_config *config) {
  const char *listing = config->listing;
  if (!listing || shard_datasets_all.error) {
    return;
  }
  shard_datasets_all.is_manifest = shard_pattern_is_manifest(listing);
  if (shard_datasets_all.is_manifest) {
    shard_datasets_all.options.include[0] = 0; /* what it has is what there is */
  }
  shard_datasets_all.per_rank = shard_pattern_has(listing, 'r');
  shard_datasets_all.per_epoch = shard_pattern_has(listing, 'e');
  bool shared = !shard_datasets_all.is_manifest && !shard_datasets_all.per_rank &&
                !shard_datasets_all.per_epoch;
  const char *why = shared ? NULL
                    : config->strategy == SHARD_STRATEGY_HASH
                        ? "SHARD_STRATEGY=hash takes none; unset one"
                    : shard_datasets_all.count != 1 ? "SHARD_DATASET must name one directory"
                                                    : NULL;
  if (why) {
    snprintf(shard_datasets_all.fault, sizeof(shard_datasets_all.fault),
             "SHARD_LISTING='%.200s' is a manifest, or a list for each rank or epoch: %s", listing,
             why);
    shard_datasets_all.error = -EINVAL;
  }
}

/* It may be made later: by this very job, if that makes its data. What else is wrong with a root
 * fails the calls (shard_place_find). */
static void warn_of_missing(const char *path) {
  static atomic_bool said;
  char text[500];
  snprintf(text, sizeof(text),
           "SHARD_DATASET='%.256s': No such file or directory; correct it, or make the directory. "
           "Until it is there nothing is of it, and every rank sees all of what it lists",
           path);
  shard_once_complain(&said, text);
}

/* Add a dataset. 0 or -ENOMEM. */
static int add_dataset(const struct shard_dataset_item *item) {
  char *path = strndup(item->path, item->path_length),
       *url = item->url ? strndup(item->url, item->url_length) : NULL;
  if (!path || (item->url && !url)) {
    free(path);
    free(url);
    return -ENOMEM;
  }
  struct shard_view_dataset *d = &shard_datasets_all.items[shard_datasets_all.count];
  struct shard_place_root *root = &shard_datasets_all.roots[shard_datasets_all.count++];
  struct shard_climb_root now;
  shard_passes_init(&d->passes, shard_config()->epoch);
  d->path = path;
  d->url = url;
  root->path = path;
  if (shard_place_look(root, &now) == 0) {
    warn_of_missing(path);
  }
  return 0;
}

/* As if nothing had been added. */
static void drop_datasets(void) {
  for (size_t i = 0; shard_datasets_all.items && i < shard_datasets_all.count; i++) {
    free((char *)shard_datasets_all.items[i].path);
    free((char *)shard_datasets_all.items[i].url);
  }
  free(shard_datasets_all.items);
  free(shard_datasets_all.roots);
}

/* 0 or -ENOMEM, and nothing has been added. */
static int add_datasets(const char *list) {
  struct shard_dataset_item item;
  size_t room = 1;
  for (const char *p = list; *p; p++) {
    room += *p == ':';
  }
  shard_datasets_all.items = calloc(room, sizeof(*shard_datasets_all.items));
  shard_datasets_all.roots = calloc(room, sizeof(*shard_datasets_all.roots));
  int rc = shard_datasets_all.items && shard_datasets_all.roots ? 0 : -ENOMEM;
  for (const char *p = list; rc == 0 && (p = shard_dataset_next(p, &item));) {
    rc = shard_dataset_is_bucket(&item) ? 0 : add_dataset(&item);
  }
  if (rc != 0) {
    drop_datasets();
  }
  return rc;
}

/* 0 or -ENOMEM. */
static int set_up(void) {
  const struct shard_config *config = shard_config();
  memset(&shard_datasets_all, 0,
         sizeof(shard_datasets_all)); /* what one left that found no memory */
  shard_datasets_all.error = config->error[0] ? -EINVAL : 0;
  shard_datasets_all.options = (struct shard_options){.hidden = true, .attributes = true};
  if (config->include) {
    strcpy(shard_datasets_all.options.include, config->include);
  }
  int rc = add_datasets(config->dataset);
  judge_listing(config);
  return rc;
}

const struct shard_datasets *shard_datasets_set_up(void) {
  int rc = 0;
  if (shard_once_enter(&shard_datasets_state) == 0) {
    rc = set_up();
    shard_once_leave(&shard_datasets_state, rc == 0 ? SHARD_ONCE_READY : SHARD_ONCE_EMPTY);
  }
  return rc == 0 ? &shard_datasets_all : NULL;
}

/* ---- the rank ----------------------------------------------------------- */

static _Atomic uint64_t numbers; /* rank and size, once a call has needed them; 0: none has */
static _Atomic uint64_t found_by; /* the environment that they were found in */
static atomic_int local_rank;

/*
 * By the texts, not by where they lie: perl, and who has called putenv(3), put another text into the
 * same place. bash has variables of its own, which it shows to getenv() at once.
 */
static uint64_t number_environment(void) {
  static const char *const shells[] = {"SHARD_RANK", "SHARD_SIZE", "RANK", "WORLD_SIZE"};
  uint64_t number = 0;
  for (char **p = environ; p && *p; p++) {
    number = shard_xxh64(*p, strlen(*p), number);
  }
  for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
    const char *value = getenv(shells[i]);
    number = value ? shard_xxh64(value, strlen(value), number) : number + i;
  }
  return number;
}

/* Take the rank that was found, or refuse another one than before. 0 or -EINVAL. */
static int settle_rank(const struct shard_launcher *found, char *err, size_t size) {
  const struct shard_world *w = &found->world;
  uint64_t before = 0, now = (uint64_t)w->rank << 32 | (uint32_t)w->size;
  if (found->rc != 0) { /* a launcher has no rank, and lists what its ranks would */
    bool settled = found->rc == -ENOENT && atomic_load(&numbers) != 0;
    return settled ? 0 : shard_error_set(err, size, -EINVAL, "%s", found->line);
  }
  if (atomic_compare_exchange_strong(&numbers, &before, now)) {
    atomic_store(&local_rank, w->local_rank);
    if (found->note[0]) {
      shard_job_say_once(found, "rank", found->note);
    }
  } else if (before != now) {
    return shard_error_set(err, size, -EINVAL,
                           "this process has listed a dataset as rank %u of %u, and is rank %d of "
                           "%d now; set the rank before it lists, or list in a program that is "
                           "started for each rank",
                           (unsigned)(before >> 32), (unsigned)before, w->rank, w->size);
  }
  return 0;
}

int shard_datasets_find_rank(char *err, size_t size) {
  uint64_t environment = number_environment();
  if (atomic_load_explicit(&numbers, memory_order_acquire) != 0 &&
      atomic_load(&found_by) == environment) {
    return 0;
  }
  struct shard_launcher *found = malloc(sizeof(*found));
  if (!found) {
    return shard_error_set(err, size, -ENOMEM, "no memory to look for the rank");
  }
  shard_launcher_find(found);
  int rc = settle_rank(found, err, size);
  free(found);
  if (rc == 0) {
    atomic_store(&found_by, environment);
  }
  return rc;
}

struct shard_datasets_rank shard_datasets_get_rank(void) {
  uint64_t now = atomic_load_explicit(&numbers, memory_order_acquire);
  return (struct shard_datasets_rank){(uint32_t)(now >> 32), (uint32_t)now,
                                      atomic_load(&local_rank)};
}

/* ---- datasets inside others --------------------------------------------- */

/* Positions of the names below directory `path`. */
static int find_positions(const struct shard_table *t, const char *path, struct shard_hole *out) {
  char *key = NULL;
  int length = asprintf(&key, "%s/", path);
  if (length < 0) {
    return -ENOMEM;
  }
  int rc = shard_names_below(t, key, (size_t)length, &out->begin, &out->end);
  free(key);
  return rc;
}

static int compare_holes(const void *pa, const void *pb) {
  const struct shard_hole *a = pa, *b = pb;
  if (a->begin != b->begin) {
    return a->begin < b->begin ? -1 : 1;
  }
  return (a->end < b->end) - (a->end > b->end);
}

/*
 * Where dataset `inner` lies in dataset d, whose canonical path is `outer`, malloc'd in *out; NULL:
 * it does not lie there. 0 or a negative errno.
 */
static int find_inner_path(const struct shard_view_dataset *d, const char *outer,
                           const struct shard_view_dataset *inner, char **out) {
  char *real = realpath(inner->path, NULL);
  struct stat st;
  struct shard_dir_entry known = SHARD_DIR_ENTRY(d->listing);
  int rc = 0;
  *out = NULL;
  if (!real || stat(real, &st) != 0) {
    rc = errno == ENOENT ? 0 : -errno; /* it may be made later */
    free(real);
    return rc;
  }
  const char *rest = shard_dataset_inside(real, outer);
  if (!rest && (rc = shard_listing_dir_find(d->listing, st.st_dev, st.st_ino, &known)) > 0 &&
      *known.path) {
    rest = known.path; /* it is mounted from inside this one */
  }
  *out = rest ? strdup(rest) : NULL;
  rc = rc < 0 ? rc : rest && !*out ? -ENOMEM : 0;
  free(real);
  return rc;
}

/* Holes lie apart or in one another: keep the outer ones. */
static void merge_holes(struct shard_view_dataset *d) {
  qsort(d->holes, d->nested_count, sizeof(*d->holes), compare_holes);
  for (size_t i = 0; i < d->nested_count; i++) {
    if (d->holes_count == 0 || d->holes[i].begin >= d->holes[d->holes_count - 1].end) {
      d->holes[d->holes_count++] = d->holes[i];
    }
  }
}

int shard_datasets_find_nested(struct shard_view_dataset *d) {
  char *outer = realpath(d->path, NULL);
  int rc = outer ? 0 : -errno;
  d->nested = calloc(shard_datasets_all.count, sizeof(*d->nested));
  d->holes = calloc(shard_datasets_all.count, sizeof(*d->holes));
  if (!d->nested || !d->holes) {
    rc = -ENOMEM;
  }
  for (size_t i = 0; i < shard_datasets_all.count && rc == 0; i++) {
    char *path = NULL;
    if (&shard_datasets_all.items[i] != d) {
      rc = find_inner_path(d, outer, &shard_datasets_all.items[i], &path);
    }
    if (path) {
      rc = find_positions(&d->listing->names, path, &d->holes[d->nested_count]);
      d->nested[d->nested_count++] = path;
    }
  }
  free(outer);
  if (rc == 0) {
    merge_holes(d);
  }
  return rc;
}

/* ---- which dataset, and where in it ------------------------------------- */

void shard_datasets_note_listing(void) { atomic_fetch_add(&listings, 1); }

/* Whether a directory was made after the listing: its number is another one's that has gone. */
static bool is_younger(const struct statx *st, const struct shard_dir *known) {
  return (st->stx_mask & STATX_BTIME) &&
         (st->stx_btime.tv_sec > known->ctime_sec ||
          (st->stx_btime.tv_sec == known->ctime_sec && st->stx_btime.tv_nsec > known->ctime_nsec));
}

/* Whether what a directory holds is still what was listed is asked when a listing is opened. This
 * asks only which directory it is: one that was renamed is the same, and its ctime another. */
int shard_datasets_find_listed(const struct statx *st, struct shard_datasets_place *out) {
  for (size_t i = 0; i < shard_datasets_all.count; i++) {
    struct shard_view_dataset *d = &shard_datasets_all.items[i];
    if (atomic_load_explicit(&d->state, memory_order_acquire) != SHARD_ONCE_READY || !d->listing) {
      continue;
    }
    struct shard_dir_entry known = SHARD_DIR_ENTRY(d->listing);
    /* One that cannot be read is not found: then its path is looked for, and its names fail. */
    if (shard_listing_dir_find(d->listing, makedev(st->stx_dev_major, st->stx_dev_minor),
                               st->stx_ino, &known) <= 0 ||
        known.id.mtime_sec != st->stx_mtime.tv_sec ||
        known.id.mtime_nsec != st->stx_mtime.tv_nsec || is_younger(st, &known.id)) {
      continue;
    }
    const char *path = known.path;
    for (size_t k = 0; k < d->nested_count; k++) {
      if (shard_path_below(path, d->nested[k])) {
        return 0; /* the inner dataset's; go up to it */
      }
    }
    out->dataset = d;
    out->covered = false;
    out->path = strdup(path);
    return out->path ? 1 : -ENOMEM;
  }
  return 0;
}

int shard_datasets_find(int fd, const struct statx *st, struct shard_datasets_place *out) {
  bool listed = atomic_load_explicit(&listings, memory_order_relaxed) > 0;
  struct shard_place place;
  out->dataset = NULL;
  int rc = listed ? shard_datasets_find_listed(st, out) : 0;
  if (rc != 0) {
    return rc;
  }
  rc = shard_place_find(fd, st, shard_datasets_all.roots, shard_datasets_all.count, &place);
  bool of_one = rc != 0 && place.which < shard_datasets_all.count;
  out->dataset = of_one ? &shard_datasets_all.items[place.which] : NULL;
  out->path = place.path;
  out->covered = place.covered;
  return rc;
}
