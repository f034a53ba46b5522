/* SPDX-License-Identifier: MIT */
#include "view/prepare.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "listing/listing.h"
#include "listing/markers.h"
#include "listing/samples.h"
#include "shard/shard.h"
#include "stats/stats.h"
#include "view/datasets.h"
#include "view/load.h"
#include "view/once.h"
#include "view/serve.h"

/* Returns whether the listing has the directory `path`: it existed when the listing was made. */
static int was_listed(const struct shard_listing *l, const char *path, size_t length) {
  const struct shard_table *t = &l->others;
  struct shard_attributes attributes;
  if (length == 0) {
    return 1;
  }
  int64_t at = shard_names_find(t, path, length);
  if (at < 0) {
    return at == -ENOENT ? 0 : (int)at;
  }
  int rc = shard_names_attributes(t, (uint64_t)at / SHARD_BLOCK_NAMES, &attributes);
  return rc ? rc : attributes.type[(uint64_t)at % SHARD_BLOCK_NAMES] == DT_DIR;
}

/* Returns the bytes of the directory's path as a listing has it, without the slash. */
static size_t path_length(const struct shard_served_dir *s) {
  return s->path_bytes ? s->path_bytes - 1 : 0;
}

/* Prints a line, once: with SHARD_LISTING the user may expect that only its files are read. */
static void warn_of_listing(int local_rank) {
  static atomic_bool reported;
  const char *listing = shard_config()->listing;
  if (listing && !atomic_exchange(&reported, true) && local_rank <= 0) {
    shard_say(
        SHARD_LOG_WARN,
        "SHARD_LISTING='%.300s' is not used: SHARD_STRATEGY=hash needs no listing; unset one of "
        "the two",
        listing);
  }
}

int shard_prepare_refuse_table(const struct shard_served_dir *s, const char *format,
                               const char *path, size_t length) {
  static atomic_bool reported;
  char table[561];
  snprintf(table, sizeof(table), "%.256s%s%.*s", s->dataset->path, length ? "/" : "", (int)length,
           path);
  shard_once_report(&reported, "SHARD_DATASET: " SHARD_TABLE_REFUSED, table, format);
  return -EINVAL;
}

/* Prepares a directory for the hash strategy. */
static int prepare_hashed(struct shard_served_dir *s, int local_rank) {
  size_t table;
  const char *format = shard_marker_above(s->options, s->path, path_length(s), &table);
  warn_of_listing(local_rank);
  s->source = SHARD_SERVE_HASHED;
  return format ? shard_prepare_refuse_table(s, format, s->path, table) : 0;
}

/*
 * Prints a line, once, if some directories have fewer samples than there are ranks, and others
 * more. A directory without sub-directories is often a class, unless it is a sample. With stride,
 * each rank sees each class that has enough samples.
 */
static void warn_of_few(const struct shard_served_dir *s) {
  enum { FEW = 1, MORE = 2 };
  if (!s->leaf || s->scope.begin == s->scope.end || s->share.strategy != SHARD_STRATEGY_STRIDE ||
      s->options->sample == SHARD_SAMPLE_DIRECTORY) {
    return;
  }
  int64_t first = shard_listing_sample(s->scope.listing, s->scope.begin),
          last = shard_listing_sample(s->scope.listing, s->scope.end - 1);
  unsigned now = last - first + 1 < s->share.size ? FEW : MORE;
  unsigned before = atomic_fetch_or(&s->dataset->seen_sizes, now);
  if (before == (FEW | MORE) || (before | now) != (FEW | MORE)) {
    return;
  }
  shard_datasets_warn_once(
      "few",
      "SHARD_DATASET='%.300s': some directories have fewer files than there are ranks (%u), and "
      "others more: a program that numbers classes by the files that it sees numbers them "
      "differently in each rank; give the program the list of classes, or start fewer ranks",
      s->dataset->path, (unsigned)s->share.size);
}

/* Prepares a directory that is served from the listing, if the listing has the directory. */
static int prepare_listed(struct shard_served_dir *s) {
  const char *table;
  const char *format = shard_listing_table_of(s->scope.listing, s->path, path_length(s), &table);
  if (format) {
    return shard_prepare_refuse_table(s, format, table, strlen(table));
  }
  int rc = was_listed(s->scope.listing, s->path, path_length(s));
  s->source = rc > 0 ? SHARD_SERVE_LISTED : SHARD_SERVE_UNLISTED;
  if (rc > 0) {
    rc = shard_serve_find_scope(s);
    if (rc == 0) {
      warn_of_few(s);
    }
  }
  return rc < 0 ? shard_load_report_damage(s->scope.listing, rc) : 0;
}

/* Checks that n samples suffice for SHARD_REMAINDER. Errors: -EINVAL, and a line is printed, once.
 */
static int check_count(const char *dataset, uint32_t size, uint64_t n) {
  static atomic_bool reported;
  if (shard_share_suffices(shard_config()->remainder, size, n)) {
    return 0;
  }
  shard_once_report(&reported, SHARD_TOO_FEW "; listing calls on the dataset fail", dataset,
                    (unsigned long long)n, (unsigned)size);
  return -EINVAL;
}

int shard_prepare_directory(struct shard_served_dir *s, struct shard_view_dataset *d,
                            int64_t epoch) {
  const struct shard_config *config = shard_config();
  const struct shard_datasets *all = shard_datasets_get();
  bool hash = config->strategy == SHARD_STRATEGY_HASH;
  /* A listing for each epoch is shuffled already; SHARD_SEED shuffles it once more. */
  bool shuffle = all->per_epoch ? config->seeded : shard_epoch_shuffles(epoch);
  uint64_t number = shard_epoch_number(epoch);
  s->dataset = d;
  s->options = &all->options;
  s->epoch = epoch;
  s->key = shuffle ? shard_shuffle_key(config->seed, number) : 0;
  s->stats = -1;
  s->scope.listing = d->listing;
  if (all->per_epoch) {
    s->error = shard_load_epoch_listing(d, number, &s->scope.listing);
    if (s->error != 0) {
      return s->error;
    }
  }
  struct shard_datasets_rank own = shard_datasets_get_rank();
  uint64_t n = hash ? 0 : shard_listing_samples(s->scope.listing);
  uint32_t rank = all->per_rank ? 0 : own.rank, size = all->per_rank ? 1 : own.size;
  /* A listing for each rank is the rank's share as it is. */
  enum shard_remainder remainder = all->per_rank ? SHARD_REMAINDER_KEEP : config->remainder;
  shard_share_init(&s->share, config->strategy, remainder, rank, size, n, s->key);
  const struct shard_stats_share share = {.how = hash             ? SHARD_LOG_HASHED
                                                 : all->per_rank  ? SHARD_LOG_RANKS
                                                 : all->per_epoch ? SHARD_LOG_BY_EPOCH
                                                                  : SHARD_LOG_ONE,
                                          .rank = own.rank,
                                          .size = own.size,
                                          .epoch = number,
                                          .shuffled = shuffle,
                                          .listing = hash ? NULL : s->scope.listing};
  s->stats = shard_stats_find(d->path);
  shard_stats_share(s->stats, &share);
  if (hash) {
    return prepare_hashed(s, own.local_rank);
  }
  s->error = all->per_rank ? 0 : check_count(d->path, size, n);
  if (s->error != 0) {
    return s->error;
  }
  return prepare_listed(s);
}
