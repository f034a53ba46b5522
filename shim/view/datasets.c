/* SPDX-License-Identifier: MIT */
#include "view/datasets.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/workspace.h"
#include "base/xxh64.h"
#include "cache/job.h"
#include "config/config.h"
#include "config/dataset_list.h"
#include "config/launcher.h"
#include "config/path_template.h"
#include "host/locate.h"
#include "view/once.h"

#define UNREAD (-2) /* in place of an epoch: the root was never read */

atomic_int shard_datasets_state;
struct shard_datasets shard_datasets_all;

/* ---- set-up ------------------------------------------------------------- */

/* Finds which kind of listing SHARD_LISTING names, and checks that the other variables agree with
 * it. */
static void check_listing_variable(const struct shard_config *config) {
  const char *listing = config->listing;
  if (!listing || shard_datasets_all.error) {
    return;
  }
  shard_datasets_all.is_manifest = shard_path_template_is_manifest(listing);
  if (shard_datasets_all.is_manifest) {
    shard_datasets_all.options.include[0] = 0; /* a manifest is not filtered */
  }
  shard_datasets_all.per_rank = shard_path_template_has(listing, 'r');
  shard_datasets_all.per_epoch = shard_path_template_has(listing, 'e');
  bool shared = !shard_datasets_all.is_manifest && !shard_datasets_all.per_rank &&
                !shard_datasets_all.per_epoch;
  const char *why = shared ? NULL
                    : config->strategy == SHARD_STRATEGY_HASH
                        ? "SHARD_STRATEGY=hash needs no listing; unset one of the two"
                    : shard_datasets_all.count != 1 ? "SHARD_DATASET must name one directory"
                                                    : NULL;
  if (!why && shard_datasets_all.is_manifest && !shard_datasets_all.per_rank &&
      shard_datasets_all.options.sample) {
    why = "libshard shares out a manifest name by name; unset SHARD_SAMPLE, or make a manifest for "
          "each rank (%r)";
  }
  if (why) {
    snprintf(shard_datasets_all.fault, sizeof(shard_datasets_all.fault),
             "SHARD_LISTING='%.200s' is a manifest, or a list for each rank or epoch: %s", listing,
             why);
    shard_datasets_all.error = -EINVAL;
  }
}

/* Returns a hint if the text of a missing path shows a common mistake; else NULL. */
static const char *find_hint(const char *path) {
  const char *blank = strchr(path, ' ');
  char *before = blank ? strndup(path, (size_t)(blank - path)) : NULL;
  bool list = before && access(before, F_OK) == 0;
  free(before);
  return list                   ? "separate directories by a colon: a blank is part of a path"
         : strpbrk(path, "*?[") ? "patterns are not expanded: name the directory above"
         : strstr(path, "/~")   ? "'~' is not expanded: write $HOME"
                                : NULL;
}

/* Prints a line, once: a root is no directory. It may be created later, perhaps by this job. */
static void warn_of_root(const char *path, int error) {
  static atomic_bool reported;
  bool missing = error == ENOENT || error == ENOTDIR;
  const char *hint =
      missing ? find_hint(path) : "mount it again, let this user search the directories above";
  shard_once_report(
      &reported, "SHARD_DATASET='%.256s': %s; %s, %s", path, strerror(error),
      hint ? hint : "correct the path",
      missing
          ? "or create the directory. Until the directory exists nothing is divided: every rank "
            "sees all files"
          : "or correct the path. Listing calls at or below that path fail");
}

/* Adds a dataset. Errors: -ENOMEM. */
static int add_dataset(const struct shard_dataset_item *item) {
  char *path = strndup(item->path, item->path_length),
       *url = item->url ? strndup(item->url, item->url_length) : NULL;
  if (!path || (item->url && !url)) {
    free(path);
    free(url);
    return -ENOMEM;
  }
  struct shard_view_dataset *d = &shard_datasets_all.items[shard_datasets_all.count];
  struct shard_dataset_root *root = &shard_datasets_all.roots[shard_datasets_all.count++];
  struct shard_inode_root now;
  atomic_init(&d->epoch, UNREAD);
  d->path = path;
  d->url = url;
  root->path = path;
  int rc = shard_locate_root(root, &now);
  /* After a fault of the variables, which was printed, the path may not be the intended one. */
  if (rc != 0 && !shard_error_is_shortage(rc) && !shard_config()->error[0]) {
    warn_of_root(path, -rc);
  }
  return 0;
}

/* Frees the datasets that were added. */
static void drop_datasets(void) {
  for (size_t i = 0; shard_datasets_all.items && i < shard_datasets_all.count; i++) {
    free((char *)shard_datasets_all.items[i].path);
    free((char *)shard_datasets_all.items[i].url);
  }
  free(shard_datasets_all.items);
  free(shard_datasets_all.roots);
}

/* Adds the directories of a list. Errors: -ENOMEM; nothing was added. */
static int add_datasets(const char *list) {
  struct shard_dataset_item item;
  size_t room = 1;
  for (const char *p = list; *p; p++) {
    room += *p == ':';
  }
  shard_datasets_all.items = calloc(room, sizeof(*shard_datasets_all.items));
  shard_datasets_all.roots = calloc(room, sizeof(*shard_datasets_all.roots));
  int rc = shard_datasets_all.items && shard_datasets_all.roots ? 0 : -ENOMEM;
  for (const char *p = list; rc == 0 && (p = shard_dataset_list_next(p, &item));) {
    rc = shard_dataset_item_is_bucket(&item) ? 0 : add_dataset(&item);
  }
  if (rc != 0) {
    drop_datasets();
  }
  return rc;
}

/* Sets up shard_datasets_all. Errors: -ENOMEM. */
static int set_up_datasets(void) {
  const struct shard_config *config = shard_config();
  memset(&shard_datasets_all, 0,
         sizeof(shard_datasets_all)); /* left over from an attempt without memory */
  shard_datasets_all.error = config->error[0] ? -EINVAL : 0;
  shard_datasets_all.options = (struct shard_options){.hidden = true, .attributes = true};
  if (config->include) {
    strcpy(shard_datasets_all.options.include, config->include);
  }
  shard_options_set_sample(&shard_datasets_all.options, config->sample);
  int rc = add_datasets(config->dataset);
  check_listing_variable(config);
  return rc;
}

const struct shard_datasets *shard_datasets_set_up(void) {
  int rc = 0;
  if (shard_once_enter(&shard_datasets_state) == 0) {
    rc = set_up_datasets();
    shard_once_leave(&shard_datasets_state, rc == 0 ? SHARD_ONCE_READY : SHARD_ONCE_EMPTY);
  }
  return rc == 0 ? &shard_datasets_all : NULL;
}

/* ---- the epoch ---------------------------------------------------------- */

int shard_datasets_find_epoch(struct shard_view_dataset *d, bool begins, int64_t *epoch) {
  static atomic_bool reported;
  char err[500];
  int64_t known = atomic_load(&d->epoch);
  if (!begins && known != UNREAD) {
    *epoch = known;
    return 0;
  }
  int rc = shard_epoch_read(epoch, err, sizeof(err));
  if (rc != 0) {
    shard_once_report(&reported, "%s; listing calls on '%.256s' fail", err, d->path);
  }
  if (begins) {
    atomic_store(&d->epoch, rc ? UNREAD : *epoch);
  }
  return rc;
}

/* ---- the rank ----------------------------------------------------------- */

static _Atomic uint64_t numbers;  /* rank and size, once settled; 0: not settled */
static _Atomic uint64_t found_in; /* the hash of the environment in which they were found */
static atomic_int local_rank;

/*
 * Returns a hash of the environment's texts. Their addresses say nothing: perl, and programs that
 * call putenv(3), write another text to the same address. bash has variables of its own, which
 * getenv() sees before environ does.
 */
static uint64_t hash_environment(void) {
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

/* Settles the rank that was found. Errors: -EINVAL and a line, another rank was settled before. */
static int settle_rank(const struct shard_launcher *found, char *err, size_t size) {
  const struct shard_world *w = &found->world;
  uint64_t before = 0, now = (uint64_t)w->rank << 32 | (uint32_t)w->size;
  if (found->rc != 0) { /* a launcher forgets its rank, and then lists as its ranks would */
    bool settled = found->rc == -ENOENT && atomic_load(&numbers) != 0;
    int rc = found->rc == -ENOENT ? -EINVAL : found->rc;
    return settled ? 0 : shard_error_set(err, size, rc, "%s", found->line);
  }
  if (atomic_compare_exchange_strong(&numbers, &before, now)) {
    atomic_store(&local_rank, w->local_rank);
    if (found->note[0]) {
      shard_job_say_once(found, "rank", found->note);
    }
  } else if (before != now) {
    return shard_error_set(err, size, -EINVAL,
                           "this process has listed a dataset as rank %u of %u, and is rank %d of "
                           "%d now; set the rank before the first listing call, or start a program "
                           "for each rank",
                           (unsigned)(before >> 32), (unsigned)before, w->rank, w->size);
  }
  return 0;
}

int shard_datasets_find_rank(char *err, size_t size) {
  uint64_t environment = hash_environment();
  if (atomic_load_explicit(&numbers, memory_order_acquire) != 0 &&
      atomic_load(&found_in) == environment) {
    return 0;
  }
  struct shard_launcher *found = malloc(sizeof(*found));
  if (!found) {
    return shard_error_set(err, size, -ENOMEM, "out of memory while finding the rank");
  }
  shard_launcher_find(found);
  int rc = settle_rank(found, err, size);
  free(found);
  if (rc == 0) {
    atomic_store(&found_in, environment);
  }
  return rc;
}

void shard_datasets_warn_once(const char *kind, const char *format, ...) {
  struct shard_launcher *found = malloc(sizeof(*found));
  SHARD_WORKSPACE(text);
  va_list args;
  va_start(args, format);
  if (found && text) {
    vsnprintf(text, SHARD_WORKSPACE_SIZE, format, args);
    shard_launcher_find(found);
    shard_job_say_once(found, kind, text);
  }
  va_end(args);
  free(found);
}

struct shard_datasets_rank shard_datasets_get_rank(void) {
  uint64_t now = atomic_load_explicit(&numbers, memory_order_acquire);
  return (struct shard_datasets_rank){(uint32_t)(now >> 32), (uint32_t)now,
                                      atomic_load(&local_rank)};
}
