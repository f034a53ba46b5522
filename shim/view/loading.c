/* SPDX-License-Identifier: MIT */
#include "view/loading.h"

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
#include "config/pattern.h"
#include "listing/listing.h"
#include "listing/samples.h"
#include "view/datasets.h"
#include "view/once.h"

#define ERROR_ROOM 700
#define SAMPLES 16 /* names of a text that are looked for */

/* The listing of one epoch, where SHARD_LISTING has one for each (%e). */
struct shard_edition {
  struct shard_edition *older;
  uint64_t epoch;
  struct shard_listing *listing; /* NULL: */
  int error;                     /* why there is none; reported */
};

/* Open what SHARD_LISTING names for this rank and epoch; it is a manifest, or has %r or %e. */
static int open_named(const struct shard_view_dataset *d, uint64_t epoch,
                      struct shard_listing **out, char *err, size_t size) {
  const struct shard_datasets *all = shard_datasets_get();
  char *list = malloc(PATH_MAX);
  int rc = -ENOMEM;
  if (list && shard_pattern_expand(shard_config()->listing, shard_datasets_get_rank().rank, epoch,
                                   list, PATH_MAX) >= 0) {
    const struct shard_cache_source source = {
        .dir = d->path, .list = list, .options = &all->options};
    rc = shard_cache_open(&source, out, err, size);
  } else {
    shard_error_set(err, size, rc, "SHARD_LISTING: too long, or out of memory");
  }
  free(list);
  return rc;
}

/*
 * Whether the names of a text lead somewhere: what nobody has walked tells of no change, and names
 * of another place would only show as files that are missing. Some are looked at, the same by every
 * rank. 0, or a negative errno and a line.
 */
static int check_names(const struct shard_view_dataset *d, const struct shard_listing *l, char *err,
                       size_t size) {
  uint64_t n = l ? l->names.count : 0, last = SAMPLES < n ? SAMPLES : n;
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
      rc = shard_error_set(err, size,
                           gone              ? -ESTALE
                           : fault == EISDIR ? -EINVAL
                                             : -fault,
                           "SHARD_LISTING='%.200s' names '%.200s', and looking for that in "
                           "'%.200s' gives: %s; make it anew, of files that are there, by their "
                           "paths from that directory",
                           shard_config()->listing, name, d->path, strerror(fault));
    }
  }
  shard_file_close(root);
  free(name);
  return rc;
}

/* Whether the listing's samples are what the user says, or need not say. 0, or -EINVAL and a line.
 */
static int check_sets(const struct shard_view_dataset *d, const struct shard_listing *l, char *err,
                      size_t size) {
  const struct shard_datasets *all = shard_datasets_get();
  bool said = shard_config()->sampled || all->is_manifest || all->per_rank;
  return !l || !l->header->sets || said || shard_datasets_get_rank().size == 1
             ? 0
             : shard_error_set(err, size, -EINVAL, "SHARD_DATASET='%.256s': " SHARD_SAMPLE_SETS,
                               d->path);
}

/* Of a sample that is larger than a share of all files. For those who ask what is done: datasets
 * that differ in how many samples they have are no pairs; often they need not be. */
static void warn_of_samples(const struct shard_view_dataset *d) {
  const struct shard_datasets *all = shard_datasets_get();
  const struct shard_header *h = d->listing->header;
  uint32_t size = shard_datasets_get_rank().size;
  if (h->sample && h->largest > h->names.count / size) {
    shard_datasets_say_once(
        "sample",
        "SHARD_DATASET='%.256s': a sample has %llu of all %llu files, more than a rank's share "
        "of %u ranks; start fewer ranks, or set SHARD_SAMPLE=file",
        d->path, (unsigned long long)h->largest, (unsigned long long)h->names.count, size);
  }
  for (const struct shard_view_dataset *o = all->items; o < all->items + all->count; o++) {
    if (o != d && atomic_load(&o->state) == SHARD_ONCE_READY && o->listing &&
        shard_listing_samples(o->listing) != shard_listing_samples(d->listing)) {
      shard_say(SHARD_LOG_INFO,
                "SHARD_DATASET: '%.256s' has %llu samples, and '%.256s' %llu: they are no pairs",
                o->path, (unsigned long long)shard_listing_samples(o->listing), d->path,
                (unsigned long long)shard_listing_samples(d->listing));
    }
  }
}

static int open_listing(struct shard_view_dataset *d, char *err, size_t size) {
  const struct shard_datasets *all = shard_datasets_get();
  if (all->is_manifest || all->per_rank) {
    return open_named(d, 0, &d->listing, err, size);
  }
  const struct shard_cache_source source = {
      .dir = d->path, .url = d->url, .options = &all->options};
  return shard_cache_open(&source, &d->listing, err, size);
}

/* A prefix of a bucket below which there is no key is probably a wrong one, and so are patterns
 * that no name matches: then every rank has all of the names. */
static void warn_if_empty(const struct shard_view_dataset *d) {
  const struct shard_datasets *all = shard_datasets_get();
  const char *include = all->options.include;
  bool empty = d->listing->names.count == 0;
  /* A rank's own list may well be empty. */
  bool told =
      empty && !all->is_manifest && !all->per_rank && shard_datasets_get_rank().local_rank <= 0;
  if (told && !d->url && *include && d->listing->others.count > 0) {
    shard_say(
        SHARD_LOG_WARN,
        "SHARD_INCLUDE='%.300s': no name below '%.256s' matches, so all ranks have all of them",
        include, d->path);
  }
  if (told && d->url) {
    shard_say(SHARD_LOG_WARN,
              "SHARD_DATASET='%.256s=%.300s': there is no key %s%.100s%sbelow that prefix, so the "
              "directory shows no files",
              d->path, d->url, *include ? "of SHARD_INCLUDE='" : "", include, *include ? "' " : "");
  }
}

__attribute__((noinline)) static void tell_serving(const struct shard_view_dataset *d) {
  struct shard_listing_info info;
  shard_listing_info(d->listing, &info);
  shard_say(SHARD_LOG_INFO, "serving '%.300s': %llu entries, digest %.16s", d->path,
            (unsigned long long)info.entries, info.digest);
}

/* Open the dataset's listing, and set d->error. */
static void load(struct shard_view_dataset *d) {
  SHARD_WORKSPACE(err);
  d->listing = NULL; /* a parent that forked in the middle of this may have left something */
  d->error = err ? open_listing(d, err, ERROR_ROOM) : -ENOMEM;
  d->error = d->error ? d->error : check_names(d, d->listing, err, ERROR_ROOM);
  d->error = d->error ? d->error : check_sets(d, d->listing, err, ERROR_ROOM);
  if (d->error == -EACCES) {
    d->error = -EPERM;
  }
  if (d->error != 0) {
    if (!shard_error_is_shortage(d->error) || !d->told) {
      shard_say(SHARD_LOG_ERROR, "%s; listing calls on '%.100s' fail", err ? err : strerror(ENOMEM),
                d->path);
    }
    d->told = true;
    shard_listing_close(d->listing);
    d->listing = NULL;
    return;
  }
  if (shard_config()->log >= SHARD_LOG_INFO) {
    tell_serving(d);
  }
  warn_if_empty(d);
  warn_of_samples(d);
}

int shard_loading_have_listing(struct shard_view_dataset *d) {
  if (shard_once_enter(&d->state) == 0) {
    load(d);
    int rc = d->error;
    shard_once_leave(&d->state, shard_error_is_shortage(rc) ? SHARD_ONCE_EMPTY : SHARD_ONCE_READY);
    return rc;
  }
  return d->error;
}

/* The edition of an epoch, if it is there already. */
static struct shard_edition *find_edition(struct shard_view_dataset *d, uint64_t epoch) {
  struct shard_edition *e = atomic_load_explicit(&d->editions, memory_order_acquire);
  while (e && e->epoch != epoch) {
    e = e->older;
  }
  return e;
}

/* Open the edition of an epoch. NULL and *rc: there was no descriptor or memory for it. */
static struct shard_edition *open_edition(struct shard_view_dataset *d, uint64_t epoch, int *rc) {
  SHARD_WORKSPACE(err);
  struct shard_edition *e = calloc(1, sizeof(*e));
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
  e->older = atomic_load(&d->editions);
  atomic_store_explicit(&d->editions, e, memory_order_release);
  return e;
}

int shard_loading_have_edition(struct shard_view_dataset *d, uint64_t epoch,
                               const struct shard_listing **out) {
  struct shard_edition *e = find_edition(d, epoch);
  int rc = 0;
  if (!e && shard_once_enter(&d->opening) == 0) {
    e = find_edition(d, epoch); /* another thread's */
    if (!e) {
      e = open_edition(d, epoch, &rc);
    }
    shard_once_leave(&d->opening, SHARD_ONCE_EMPTY);
  }
  if (e) {
    rc = e->error == -EACCES ? -EPERM : e->error;
    *out = e->listing;
  }
  return rc;
}

/* ---- those that cannot be read on --------------------------------------- */

static atomic_bool damage_told;

int shard_loading_report_damage(const struct shard_listing *l, int rc) {
  if (rc != -EBADMSG) {
    return rc;
  }
  shard_once_complain(&damage_told, "listing '%.300s' of '%.256s' is damaged; remove it", l->file,
                      l->source);
  return -EIO;
}
