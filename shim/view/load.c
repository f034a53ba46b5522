/* SPDX-License-Identifier: MIT */
#include "view/load.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "base/workspace.h"
#include "cache/cache.h"
#include "config/config.h"
#include "config/path_template.h"
#include "listing/listing.h"
#include "listing/samples.h"
#include "view/datasets.h"
#include "view/once.h"

#define ERROR_ROOM 700
#define CHECKED_NAMES 16 /* names of a manifest that must exist */

/* The listing of one epoch, where SHARD_LISTING has a listing for each (%e). */
struct shard_epoch_listing {
  struct shard_epoch_listing *older;
  uint64_t epoch;
  struct shard_listing *listing; /* NULL: */
  int error;                     /* why there is none; reported */
};

/* Opens SHARD_LISTING, a manifest or a path with %r or %e, for this rank and an epoch. */
static int open_named(const struct shard_view_dataset *d, uint64_t epoch,
                      struct shard_listing **out, char *err, size_t size) {
  const struct shard_datasets *all = shard_datasets_get();
  char *list = malloc(PATH_MAX);
  int rc = -ENOMEM;
  if (list && shard_path_template_expand(shard_config()->listing, shard_datasets_get_rank().rank,
                                         epoch, list, PATH_MAX) >= 0) {
    const struct shard_cache_source source = {
        .dir = d->path, .list = list, .options = &all->options};
    rc = shard_cache_open(&source, out, err, size);
  } else {
    shard_error_set(err, size, rc, "SHARD_LISTING is too long, or memory is short");
  }
  free(list);
  return rc;
}

/*
 * Checks that some names of a manifest exist in the dataset, the same names in every rank. A
 * manifest has no directories that were walked, so changes cannot be noticed; names of another
 * directory would only show as missing files. Errors: a negative errno and a line.
 */
static int check_names(const struct shard_view_dataset *d, const struct shard_listing *l, char *err,
                       size_t size) {
  uint64_t n = l ? l->names.count : 0, last = CHECKED_NAMES < n ? CHECKED_NAMES : n;
  if (n == 0 || d->url || l->header->directories != 0) {
    return 0;
  }
  char *name = malloc(PATH_MAX);
  int root = shard_path_open(AT_FDCWD, d->path, O_PATH), rc = root < 0 ? -errno : 0;
  rc = name ? rc : -ENOMEM;
  if (rc != 0) {
    shard_error_set(err, size, rc, "SHARD_DATASET='%.256s': %s", d->path, strerror(-rc));
  }
  for (uint64_t i = 0; i < last && rc == 0; i++) {
    uint64_t at = last > 1 ? (uint64_t)((unsigned __int128)i * (n - 1) / (last - 1)) : 0;
    struct stat st;
    ssize_t length = shard_listing_name(l, at, name, PATH_MAX);
    if (length < 0) {
      rc = shard_error_set(err, size, (int)length, "'%.300s' is damaged; remove it", l->file);
      break;
    }
    int fault = fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ? errno
                : S_ISDIR(st.st_mode)                              ? EISDIR
                                                                   : 0;
    if (fault) {
      bool gone = fault == ENOENT || fault == ENOTDIR;
      rc = shard_error_set(
          err, size,
          gone              ? -ESTALE
          : fault == EISDIR ? -EINVAL
                            : -fault,
          "SHARD_LISTING='%.200s' names '%.200s', which is not a file in '%.200s': "
          "%s; make the listing again, of files that exist, by their paths from that "
          "directory",
          shard_config()->listing, name, d->path, strerror(fault));
    }
  }
  shard_file_close(root);
  free(name);
  return rc;
}

/* Checks that the user has set SHARD_SAMPLE if the listing's files come in sets. Errors: -EINVAL
 * and a line. */
static int check_sets(const struct shard_view_dataset *d, const struct shard_listing *l, char *err,
                      size_t size) {
  const struct shard_datasets *all = shard_datasets_get();
  bool decided = shard_config()->sampled || all->is_manifest || all->per_rank;
  return !l || !l->header->sets || decided || shard_datasets_get_rank().size == 1
             ? 0
             : shard_error_set(err, size, -EINVAL, "SHARD_DATASET='%.256s': " SHARD_SAMPLE_SETS,
                               d->path);
}

/* Prints a warning about a sample that is larger than a share of all files; and, only at level info
 * because it is often intended, that two datasets have different numbers of samples. */
static void warn_of_samples(const struct shard_view_dataset *d) {
  const struct shard_datasets *all = shard_datasets_get();
  const struct shard_header *h = d->listing->header;
  uint32_t size = shard_datasets_get_rank().size;
  if (h->sample && h->largest > h->names.count / size) {
    shard_datasets_warn_once(
        "sample",
        "SHARD_DATASET='%.256s': a sample has %llu of all %llu files, more than a rank's share "
        "of %u ranks; start fewer ranks, or set SHARD_SAMPLE=file",
        d->path, (unsigned long long)h->largest, (unsigned long long)h->names.count, size);
  }
  for (const struct shard_view_dataset *o = all->items; o < all->items + all->count; o++) {
    if (o != d && atomic_load(&o->state) == SHARD_ONCE_READY && o->listing &&
        shard_listing_samples(o->listing) != shard_listing_samples(d->listing)) {
      shard_say(
          SHARD_LOG_INFO,
          "SHARD_DATASET: '%.256s' has %llu samples, but '%.256s' has %llu: their files do not "
          "pair up",
          o->path, (unsigned long long)shard_listing_samples(o->listing), d->path,
          (unsigned long long)shard_listing_samples(d->listing));
    }
  }
}

static int open_dataset_listing(struct shard_view_dataset *d, char *err, size_t size) {
  const struct shard_datasets *all = shard_datasets_get();
  if (all->is_manifest || all->per_rank) {
    return open_named(d, 0, &d->listing, err, size);
  }
  const struct shard_cache_source source = {
      .dir = d->path, .url = d->url, .options = &all->options};
  return shard_cache_open(&source, &d->listing, err, size);
}

/* Prints a warning if no key lies below a bucket's prefix, or if no name matches SHARD_INCLUDE, so
 * that every rank has all names: the prefix or the patterns are probably wrong. */
static void warn_if_empty(const struct shard_view_dataset *d) {
  const struct shard_datasets *all = shard_datasets_get();
  const char *include = all->options.include;
  bool empty = d->listing->names.count == 0;
  /* A listing for each rank may be empty on purpose. */
  bool wanted =
      empty && !all->is_manifest && !all->per_rank && shard_datasets_get_rank().local_rank <= 0;
  if (wanted && !d->url && *include && d->listing->others.count > 0) {
    shard_say(SHARD_LOG_WARN,
              "SHARD_INCLUDE='%.300s': no name below '%.256s' matches, so every rank has all names",
              include, d->path);
  }
  if (wanted && d->url) {
    shard_say(SHARD_LOG_WARN,
              "SHARD_DATASET='%.256s=%.300s': there is no key %s%.100s%sbelow that prefix, so the "
              "directory shows no files",
              d->path, d->url, *include ? "of SHARD_INCLUDE='" : "", include, *include ? "' " : "");
  }
}

__attribute__((noinline)) static void report_serving(const struct shard_view_dataset *d) {
  struct shard_listing_info info;
  shard_listing_info(d->listing, &info);
  shard_say(SHARD_LOG_INFO, "serving '%.300s': %llu entries, digest %.16s", d->path,
            (unsigned long long)info.entries, info.digest);
}

/* Opens the dataset's listing, and sets d->error. */
static void load_dataset(struct shard_view_dataset *d) {
  SHARD_WORKSPACE(err);
  d->listing = NULL; /* a parent that forked during load_dataset() may have left a value */
  d->error = err ? open_dataset_listing(d, err, ERROR_ROOM) : -ENOMEM;
  d->error = d->error ? d->error : check_names(d, d->listing, err, ERROR_ROOM);
  d->error = d->error ? d->error : check_sets(d, d->listing, err, ERROR_ROOM);
  if (d->error == -EACCES) {
    d->error = -EPERM;
  }
  if (d->error != 0) {
    if (!shard_error_is_shortage(d->error) || !d->reported) {
      shard_say(SHARD_LOG_ERROR, "%s; listing calls on '%.100s' fail", err ? err : strerror(ENOMEM),
                d->path);
    }
    d->reported = true;
    shard_listing_close(d->listing);
    d->listing = NULL;
    return;
  }
  if (shard_config()->log >= SHARD_LOG_INFO) {
    report_serving(d);
  }
  warn_if_empty(d);
  warn_of_samples(d);
}

int shard_load_listing(struct shard_view_dataset *d) {
  if (shard_once_enter(&d->state) == 0) {
    load_dataset(d);
    int rc = d->error;
    shard_once_leave(&d->state, shard_error_is_shortage(rc) ? SHARD_ONCE_EMPTY : SHARD_ONCE_READY);
    return rc;
  }
  return d->error;
}

/* Returns the listing of an epoch if it was opened before, else NULL. */
static struct shard_epoch_listing *find_epoch_listing(struct shard_view_dataset *d,
                                                      uint64_t epoch) {
  struct shard_epoch_listing *e = atomic_load_explicit(&d->epoch_listings, memory_order_acquire);
  while (e && e->epoch != epoch) {
    e = e->older;
  }
  return e;
}

/* Opens the listing of an epoch. Errors: NULL and *rc, no descriptor or memory was left. */
static struct shard_epoch_listing *open_epoch_listing(struct shard_view_dataset *d, uint64_t epoch,
                                                      int *rc) {
  SHARD_WORKSPACE(err);
  struct shard_epoch_listing *e = calloc(1, sizeof(*e));
  *rc = -ENOMEM;
  if (!e || !err) {
    free(e);
    return NULL;
  }
  e->epoch = epoch;
  *rc = open_named(d, epoch, &e->listing, err, ERROR_ROOM);
  *rc = *rc ? *rc : check_names(d, e->listing, err, ERROR_ROOM);
  e->error = *rc = *rc ? *rc : check_sets(d, e->listing, err, ERROR_ROOM);
  if (*rc != 0) {
    shard_listing_close(e->listing);
    e->listing = NULL;
    shard_say(SHARD_LOG_ERROR, "%s; listing calls on '%.100s' fail in epoch %llu", err, d->path,
              (unsigned long long)epoch);
  }
  if (shard_error_is_shortage(*rc)) {
    free(e);
    return NULL;
  }
  e->older = atomic_load(&d->epoch_listings);
  atomic_store_explicit(&d->epoch_listings, e, memory_order_release);
  return e;
}

int shard_load_epoch_listing(struct shard_view_dataset *d, uint64_t epoch,
                             const struct shard_listing **out) {
  struct shard_epoch_listing *e = find_epoch_listing(d, epoch);
  int rc = 0;
  if (!e && shard_once_enter(&d->epoch_slot) == 0) {
    e = find_epoch_listing(d, epoch); /* another thread may have opened it */
    if (!e) {
      e = open_epoch_listing(d, epoch, &rc);
    }
    shard_once_leave(&d->epoch_slot, SHARD_ONCE_EMPTY);
  }
  if (e) {
    rc = e->error == -EACCES ? -EPERM : e->error;
    *out = e->listing;
  }
  return rc;
}

/* ---- damage ------------------------------------------------------------- */

static atomic_bool damage_reported;

int shard_load_report_damage(const struct shard_listing *l, int rc) {
  if (rc != -EBADMSG) {
    return rc;
  }
  shard_once_report(&damage_reported, "listing '%.300s' of '%.256s' is damaged; remove it", l->file,
                    l->source);
  return -EIO;
}
