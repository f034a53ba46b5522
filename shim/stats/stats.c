/* SPDX-License-Identifier: MIT */
#include "stats/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/xxh64.h"
#include "cache/job.h"
#include "config/config.h"
#include "config/dataset.h"
#include "config/pattern.h"
#include "host/climb.h"
#include "libshard.h"
#include "listing/options.h"
#include "stats/keeper.h"
#include "stats/log.h"
#include "stats/notes.h"
#include "stats/opens.h"

atomic_int shard_stats_state;

/* What this process reads of a dataset, if it does. */
static struct {
  _Atomic int64_t pid; /* a forked child has its parent's until it reads for itself */
  _Atomic uint64_t epoch;
  _Atomic uint64_t listed; /* the epoch whose list was noted, and one more; 0: none */
} reading[SHARD_LOG_DATASETS];

/*
 * Whether statistics are kept. A program may have set its rank itself since it began, or a child of
 * it: the first process that lists a dataset is the rank's main process then. of_program: it shards
 * by itself, and without a launcher it is the only rank.
 */
static bool begin(bool of_program) {
  static _Atomic int64_t tried; /* by this process, with a rank */
  const struct shard_world one = {.rank = 0, .size = 1, .local_rank = -1, .local_size = -1};
  struct shard_world world;
  char ignored[300];
  if (shard_stats_on() || !shard_config()->stats || atomic_load(&tried) == getpid()) {
    return shard_stats_on();
  }
  int rc = shard_world_get(&world, ignored, sizeof(ignored));
  if (rc == 0 && atomic_exchange(&tried, getpid()) != getpid()) {
    shard_keeper_init(shard_config()->stats);
    if (shard_stats_on()) {
      atomic_fetch_add(&shard_notes_head->lost, shard_notes_count_early());
    }
  } else if (rc == -ENOENT && of_program && !shard_keeper_is_marked()) {
    shard_keeper_begin(&one);
  }
  return shard_stats_on();
}

/* ---- datasets ----------------------------------------------------------- */

/* The number of the dataset with this root, or -1. of_program: 1, 0, or -1 for either. */
static int find_root(uint64_t id, int of_program) {
  for (uint32_t i = 0; i < shard_notes_datasets(); i++) {
    if (shard_notes_is_ready(i) && shard_notes_dataset(i)->id == id &&
        (of_program < 0 || (int)shard_notes_dataset(i)->program == of_program)) {
      return (int)i;
    }
  }
  return -1;
}

/* The number of the dataset with this root, which is added if it is new. -1: it is one too many. */
static int have_root(const char *root, size_t n, const struct statx *st, bool of_program,
                     const struct shard_options *options, uint64_t first) {
  uint64_t id = shard_xxh64(root, n, 0);
  int found = find_root(id, of_program);
  if (found >= 0) {
    return found;
  }
  uint32_t i = atomic_fetch_add(&shard_notes_head->datasets, 1);
  if (i >= SHARD_LOG_DATASETS) {
    shard_notes_lose();
    return -1;
  }
  struct shard_log_dataset *d = shard_notes_dataset(i);
  d->program = of_program;
  d->id = id;
  d->first = first;
  atomic_store(&d->dev, st ? shard_climb_device(st) : 0);
  atomic_store(&d->ino, st ? st->stx_ino : 0);
  atomic_store(&d->epoch, first);
  atomic_store(&d->last, first);
  d->options = *options;
  memcpy(d->root, root, n + 1);
  atomic_store(&d->state, SHARD_LOG_READY);
  atomic_fetch_add(&shard_notes_head->generation, 1);
  return (int)i;
}

/* The number of a dataset, which is added if it is new. -1: it is not there, or one too many. */
static int have_dataset(const char *path, bool of_program, const struct shard_options *options,
                        uint64_t first) {
  char root[PATH_MAX];
  struct statx st;
  int fd = shard_kernel_open(AT_FDCWD, path, O_PATH | O_DIRECTORY);
  size_t n = fd < 0 ? 0 : shard_notes_path(fd, root);
  bool good = n > 0 && shard_climb_stat(fd, "", &st) == 0;
  shard_kernel_close(fd);
  if (!good) {
    return -1;
  }
  return have_root(root, n, &st, of_program, options, first);
}

void shard_stats_view(enum shard_view view) {
  if (shard_stats_on()) {
    atomic_store(&shard_notes_head->view, view);
  }
}

/* Which names of SHARD_DATASET are shared out. */
static void take_options(struct shard_options *options) {
  const struct shard_config *config = shard_config();
  *options = (struct shard_options){.hidden = true};
  if (config->include && !(config->listing && shard_pattern_is_manifest(config->listing))) {
    snprintf(options->include, sizeof(options->include), "%s", config->include);
  }
}

static int have_root_of_config(const char *path) {
  struct shard_options options;
  take_options(&options);
  return have_dataset(path, false, &options, shard_epoch_number(shard_config()->epoch));
}

int shard_stats_root(const char *path) {
  int saved = errno, found = begin(false) ? have_root_of_config(path) : -1;
  errno = saved;
  return found;
}

int shard_stats_find_bucket(const char *url) {
  return shard_stats_on() ? find_root(shard_xxh64(url, strlen(url), 0), -1) : -1;
}

int shard_stats_bucket(const char *url) {
  size_t n = strlen(url);
  struct shard_options options;
  int saved = errno, found = -1;
  if (n < PATH_MAX && begin(false)) {
    take_options(&options);
    found = have_root(url, n, NULL, false, &options, shard_epoch_number(shard_config()->epoch));
  }
  errno = saved;
  return found;
}

void shard_stats_object(int i, const char *name, size_t length) {
  bool marker = length == 0 || name[length - 1] == '/';
  if (i < 0 || !shard_stats_on() || marker ||
      !shard_options_match_path(&shard_notes_dataset((uint32_t)i)->options, name, length)) {
    return;
  }
  uint64_t opened = shard_notes_what(i, shard_stats_epoch_now(i), SHARD_LOG_OPENED);
  if (opened) {
    shard_notes_time(i);
    shard_notes_add(shard_xxh64(name, length, 0), opened);
  }
}

static _Atomic(struct shard_log_head *) all_there; /* the log has every root of SHARD_DATASET */

__attribute__((noinline)) void shard_stats_find_roots(void) {
  char path[PATH_MAX];
  bool missing = false;
  struct shard_dataset_item item;
  if (shard_notes_datasets() > 0 && atomic_load(&all_there) == shard_notes_head) {
    return;
  }
  for (const char *p = shard_config()->dataset; p && (p = shard_dataset_next(p, &item));) {
    if (!shard_dataset_is_bucket(&item) &&
        item.path_length < sizeof(path)) { /* without the bucket that it stands for */
      memcpy(path, item.path, item.path_length);
      path[item.path_length] = 0;
      missing |= have_root_of_config(path) < 0;
    }
  }
  atomic_store(&all_there, missing ? NULL : shard_notes_head);
}

/* Wait for another process, or thread, to fill something in. false: it was killed meanwhile. */
static bool await(_Atomic uint32_t *state) {
  for (int i = 0; i < 1000 && atomic_load(state) == SHARD_LOG_RESERVING; i++) {
    syscall(SYS_nanosleep, &(struct timespec){0, 1000000}, NULL);
  }
  return atomic_load(state) == SHARD_LOG_READY;
}

/*
 * Note how names are shared out. The main process may have been a script that has set variables
 * since: so the first process that lists a dataset says it, and the others must agree.
 */
static void tell_settings(struct shard_log_dataset *d, bool shuffled) {
  const struct shard_config *config = shard_config();
  uint32_t none = SHARD_LOG_NONE;
  uint64_t seed = shuffled ? config->seed : 0;
  if (atomic_compare_exchange_strong(&shard_notes_head->settled, &none, SHARD_LOG_RESERVING)) {
    shard_notes_head->strategy = config->strategy;
    shard_notes_head->remainder = config->remainder;
    shard_notes_head->sample = config->sample;
    shard_notes_head->shuffled = shuffled;
    shard_notes_head->seed = seed;
    shard_notes_head->job = shard_job_number();
    atomic_store(&shard_notes_head->view, SHARD_VIEW_SHARD);
    atomic_store(&shard_notes_head->settled, SHARD_LOG_READY);
  } else if (await(&shard_notes_head->settled) &&
             (shard_notes_head->strategy != (uint32_t)config->strategy ||
              shard_notes_head->remainder != (uint32_t)config->remainder ||
              shard_notes_head->sample != (uint32_t)config->sample ||
              shard_notes_head->shuffled != shuffled || shard_notes_head->seed != seed)) {
    atomic_store(&d->mixed, 1);
  }
}

/* Note when the dataset's names were at hand for the first time. */
static void tell_time(struct shard_log_dataset *d) {
  uint64_t none = 0;
  atomic_compare_exchange_strong(&d->at_hand, &none, shard_notes_now() + 1);
}

/* Note which listing is used, and its file if it has one. The first process says it, and the others
 * must agree. */
static void tell_listing(struct shard_log_dataset *d, const char digest[65], const char *file,
                         uint64_t entries, uint64_t used) {
  uint32_t none = SHARD_LOG_NONE;
  if (atomic_compare_exchange_strong(&d->listed, &none, SHARD_LOG_RESERVING)) {
    atomic_store(&d->entries, entries);
    atomic_store(&d->used, used);
    memcpy(d->digest, digest, sizeof(d->digest));
    tell_time(d);
    int fd = file ? shard_kernel_open(AT_FDCWD, file, O_PATH) : -1; /* it may be a relative path */
    if (fd >= 0) {
      shard_notes_path(fd, d->listing);
      shard_kernel_close(fd);
    }
    atomic_store(&d->listed, SHARD_LOG_READY);
  } else if (await(&d->listed) && memcmp(d->digest, digest, sizeof(d->digest)) != 0) {
    atomic_store(&d->mixed, 1);
  }
}

void shard_stats_listing(int i, const struct shard_listing *listing, uint64_t entries) {
  if (i >= 0 && shard_stats_on()) {
    struct shard_log_dataset *d = shard_notes_dataset((uint32_t)i);
    if (atomic_load(&d->lists) != SHARD_LOG_ONE) {
      atomic_store(&d->mixed, 1);
    }
    struct shard_listing_info info;
    shard_listing_info(listing, &info);
    tell_listing(d, info.digest, info.file, entries, entries);
  }
}

static void begin_epoch(struct shard_log_dataset *d, uint64_t epoch) {
  uint64_t last = atomic_load(&d->last);
  atomic_store(&d->epoch, epoch);
  while (last < epoch && !atomic_compare_exchange_weak(&d->last, &last, epoch)) {
  }
}

void shard_stats_pass(int i, uint32_t rank, uint32_t size, uint64_t epoch, bool shuffled) {
  if (i < 0 || !shard_stats_on()) {
    return;
  }
  struct shard_log_dataset *d = shard_notes_dataset((uint32_t)i);
  pid_t pid = getpid();
  tell_settings(d, shuffled);
  /* A child of the rank's may have set another rank itself, after it had joined. */
  if (rank != (uint32_t)shard_notes_head->rank || size != (uint32_t)shard_notes_head->size) {
    atomic_store(&d->mixed, 1);
  }
  if (atomic_load(&reading[i].pid) == pid && atomic_load(&reading[i].epoch) == epoch) {
    return;
  }
  uint64_t passed = shard_notes_what(i, epoch, SHARD_LOG_PASSED);
  if (passed) {
    begin_epoch(d, epoch);
    shard_notes_add(0, passed);
  }
  atomic_store(&reading[i].listed, 0);
  atomic_store(&reading[i].epoch, epoch);
  atomic_store(&reading[i].pid, pid);
}

void shard_stats_list(int i, uint64_t epoch, const struct shard_listing *listing, bool of_rank) {
  uint64_t text = i >= 0 && shard_stats_on() ? shard_notes_what(i, epoch, SHARD_LOG_TEXT) : 0;
  if (!text || atomic_exchange(&reading[i].listed, epoch + 1) == epoch + 1) {
    return;
  }
  struct shard_log_list list;
  struct shard_listing_info info;
  shard_listing_info(listing, &info);
  memset(&list, 0, sizeof(list));
  list.entries = info.entries;
  memcpy(list.digest, info.digest, sizeof(list.digest));
  int fd = shard_kernel_open(AT_FDCWD, info.file, O_PATH); /* it may be a relative path */
  size_t n = fd >= 0 ? shard_notes_path(fd, list.listing) : 0;
  shard_kernel_close(fd);
  size_t words = (offsetof(struct shard_log_list, listing) + n) / 8 + 1; /* with the NUL */
  struct shard_log_dataset *d = shard_notes_dataset((uint32_t)i);
  tell_time(d);
  uint32_t lists = of_rank ? SHARD_LOG_RANKS : SHARD_LOG_BY_EPOCH, before = SHARD_LOG_ONE;
  if ((!atomic_compare_exchange_strong(&d->lists, &before, lists) && before != lists) ||
      atomic_load(&d->listed) != SHARD_LOG_NONE) {
    atomic_store(&d->mixed, 1);
  }
  uint64_t at = atomic_fetch_add(&shard_notes_head->notes, words + 1);
  shard_notes_add_at(at, words, shard_notes_what(i, epoch, SHARD_LOG_LIST));
  for (size_t k = 0; k < words; k++) {
    uint64_t word;
    memcpy(&word, (const char *)&list + 8 * k, sizeof(word));
    shard_notes_add_at(at + 1 + k, word, text);
  }
}

void shard_stats_served(int i, uint64_t epoch, const char *name, size_t length) {
  uint64_t served = i >= 0 && shard_stats_on() ? shard_notes_what(i, epoch, SHARD_LOG_SERVED) : 0;
  if (served) {
    shard_notes_add(shard_xxh64(name, length, 0), served);
  }
}

uint64_t shard_stats_epoch_now(int i) {
  bool mine = atomic_load(&reading[i].pid) == getpid();
  return atomic_load(mine ? &reading[i].epoch : &shard_notes_dataset((uint32_t)i)->epoch);
}

/* ---- a program that shards by itself ------------------------------------ */

/* Note a dataset, of these options, and the listing of it, or what stands for one. */
static int tell_dataset(const char *root, const struct shard_options *options, const char *digest,
                        const char *file, uint64_t entries, uint64_t used, uint64_t epoch) {
  size_t n = strlen(root);
  int found = !strstr(root, "://") ? have_dataset(root, true, options, epoch)
              : n < PATH_MAX       ? have_root(root, n, NULL, true, options, epoch)
                                   : -1;
  if (found < 0) {
    return -ENOENT;
  }
  uint32_t none = SHARD_LOG_NONE;
  if (atomic_compare_exchange_strong(&shard_notes_head->settled, &none, SHARD_LOG_RESERVING)) {
    shard_notes_head->job = shard_job_number();
    atomic_store(&shard_notes_head->settled, SHARD_LOG_READY);
  }
  shard_stats_view(SHARD_VIEW_GLOBAL);
  tell_listing(shard_notes_dataset((uint32_t)found), digest, file, entries, used);
  return 0;
}

int shard_stats_dataset(const char *root, const struct shard_listing *listing, uint64_t used,
                        uint64_t epoch) {
  struct shard_listing_info info;
  struct shard_options options;
  char ignored[300];
  int saved = errno, rc = -ENOENT;
  shard_listing_info(listing, &info);
  if (begin(true) && shard_options_parse(&options, info.options, ignored, sizeof(ignored)) == 0) {
    rc = tell_dataset(root, &options, info.digest, info.file, info.entries, used, epoch);
  }
  errno = saved;
  return rc;
}

int shard_stats_names(const char *root, const char digest[65], uint64_t entries, uint64_t used,
                      uint64_t epoch) {
  static const struct shard_options all = {.hidden = true};
  int saved = errno;
  int rc = begin(true) ? tell_dataset(root, &all, digest, NULL, entries, used, epoch) : -ENOENT;
  errno = saved;
  return rc;
}

uint64_t shard_stats_hash(const char *name, size_t length) { return shard_xxh64(name, length, 0); }

void shard_stats_epoch(uint64_t epoch) {
  for (uint32_t i = 0; shard_stats_on() && i < shard_notes_datasets(); i++) {
    if (shard_notes_is_ready(i) && shard_notes_dataset(i)->program) {
      begin_epoch(shard_notes_dataset(i), epoch);
    }
  }
}

/* ---- opens, the beginning and the end ----------------------------------- */

void shard_stats_opened(int fd, int dirfd, const char *path, int flags) {
  if (flags & (O_PATH | O_DIRECTORY)) { /* O_TMPFILE has the latter */
    return;
  }
  int saved = errno;
  if (shard_notes_datasets() > 0 || shard_config()->dataset) {
    shard_opens_note(fd, dirfd, path);
  }
  errno = saved;
}

void shard_stats_init(void) {
  int saved = errno;
  atomic_store(&shard_stats_state, SHARD_STATS_OFF);
  if (shard_config()->stats) {
    shard_keeper_init(shard_config()->stats);
  }
  errno = saved;
}

void shard_stats_end(void) {
  if (shard_stats_on()) {
    int saved = errno;
    shard_keeper_end();
    errno = saved;
  }
}
