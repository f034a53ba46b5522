/* SPDX-License-Identifier: MIT */
/*
 * bucket_keys.c - the shard view of buckets that a program lists by its own client: which keys are
 * this rank's. The client's adapter (adapter/buckets) asks for each page that the server has sent.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/api.h"
#include "base/error.h"
#include "base/words.h"
#include "cache/cache.h"
#include "config/config.h"
#include "config/dataset_list.h"
#include "listing/listing.h"
#include "listing/markers.h"
#include "listing/options.h"
#include "listing/samples.h"
#include "shard/shard.h"
#include "stats/stats.h"

void shard_sharing_get(struct shard_sharing *out) {
  const struct shard_config *config = shard_config();
  *out =
      (struct shard_sharing){.strategy = shard_words_at(shard_words_strategies, config->strategy),
                             .seeded = config->seeded,
                             .includes = config->include != NULL,
                             .has_listing = config->listing != NULL,
                             .has_stats = config->stats != NULL};
}

ssize_t shard_buckets(char *buf, size_t size) {
  struct shard_dataset_item item;
  size_t used = 0;
  const char *list = shard_config()->buckets ? shard_config()->dataset : NULL;
  if (size > 0) {
    *buf = 0;
  }
  while (list && (list = shard_dataset_list_next(list, &item))) {
    if (shard_dataset_item_is_bucket(&item)) {
      int n = snprintf(buf + used, size - used, "%.*s\n", (int)item.url_length, item.url);
      if (n < 0 || (size_t)n >= size - used) {
        return -ERANGE;
      }
      used += (size_t)n;
    }
  }
  return (ssize_t)used;
}

int shard_bucket_open(const char *url, const char *const *environment, struct shard_listing **out,
                      char *err, size_t size) {
  const struct shard_config *config = shard_config();
  /* The defaults of shardctl index, so that its listings are right for SHARD_LISTING. */
  struct shard_options options = {.hidden = true, .attributes = true};
  if (config->include) {
    snprintf(options.include, sizeof(options.include), "%s", config->include);
  }
  shard_options_set_sample(&options, config->sample);
  const struct shard_cache_source source = {
      .url = url, .options = &options, .environment = environment};
  return shard_cache_open(&source, out, err, size);
}

int shard_bucket_pass(const char *url, const struct shard_listing *listing, int64_t epoch) {
  int dataset = shard_stats_find(url);
  struct shard_world world;
  char ignored[500];
  if (dataset >= 0 && shard_world_get(&world, ignored, sizeof(ignored)) == 0) {
    const struct shard_stats_share share = {.how = listing ? SHARD_LOG_ONE : SHARD_LOG_HASHED,
                                            .rank = (uint32_t)world.rank,
                                            .size = (uint32_t)world.size,
                                            .epoch = shard_epoch_number(epoch),
                                            .shuffled = shard_epoch_shuffles(epoch),
                                            .listing = listing};
    shard_stats_share(dataset, &share);
  }
  return dataset;
}

void shard_bucket_opened(const char *url, const char *name) {
  shard_stats_object(url, name, strlen(name));
}

/* ---- a page ------------------------------------------------------------- */

/* What holds for all names of a page. */
struct page_query {
  const struct shard_listing *listing; /* NULL: strategy hash */
  struct shard_options include;
  struct shard_share share;
  uint64_t key;
  bool every_name; /* names that the listing lacks have an owner, too */
};

/* Returns whether no listing has such a name: a folder's marker, or a name that was not UTF-8. */
static bool is_never_listed(const char *name, size_t length) {
  return length == 0 || name[length - 1] == '/' || strstr(name, "\xef\xbf\xbd");
}

/* Returns whether a name is this rank's, by its position in the listing. If the listing lacks the
 * name, it gets the position of the next name. */
static int owns_listed(const struct page_query *q, const char *name, size_t length) {
  uint64_t n = shard_listing_count(q->listing);
  int64_t at = length > 0 ? shard_listing_find(q->listing, name) : -ENOENT;
  if (at == -ENOENT) {
    if (!q->every_name && !is_never_listed(name, length)) {
      return 0; /* created after the listing */
    }
    if (n == 0) {
      return q->share.rank == 0;
    }
    at = length > 0 ? shard_names_lower_bound(&q->listing->names, name, length) : 0;
    at = at >= 0 && (uint64_t)at >= n ? (int64_t)n - 1 : at;
  }
  at = at < 0 ? at : shard_listing_sample(q->listing, (uint64_t)at);
  return at < 0 ? (int)at : shard_share_owns(&q->share, (uint64_t)at);
}

/* Returns whether a name that matches SHARD_INCLUDE is this rank's. */
static int owns(const struct page_query *q, const char *name, size_t length) {
  return q->listing ? owns_listed(q, name, length)
                    : shard_owner_by_name(name, shard_sample_name(q->include.sample, name, length),
                                          q->key, q->share.size) == q->share.rank;
}

/* Refuses a name that lies in a table. Errors: -EINVAL and a line. */
static int refuse_table(const struct page_query *q, const char *name, size_t length, char *err,
                        size_t size) {
  const char *table = name;
  size_t n = 0;
  const char *format = q->listing ? shard_listing_table_of(q->listing, name, length, &table)
                                  : shard_marker_above(&q->include, name, length, &n);
  n = q->listing && format ? strlen(table) : n;
  char copy[301];
  snprintf(copy, sizeof(copy), "%.*s", (int)n, table);
  return format ? shard_error_set(err, size, -EINVAL, SHARD_TABLE_REFUSED, n ? copy : ".", format)
                : 0;
}

/* Fills in a query, whose listing is set. Errors: a negative errno and a line. */
static int set_up_query(struct page_query *q, int64_t epoch, char *err, size_t size) {
  uint64_t n = q->listing ? shard_listing_samples(q->listing) : 0;
  const struct shard_config *config = shard_config();
  if (config->error[0]) {
    return shard_error_set(err, size, -EINVAL, "%s", config->error);
  }
  struct shard_world world;
  if (shard_world_get(&world, err, size) != 0) {
    return -EINVAL;
  }
  if (config->include) {
    snprintf(q->include.include, sizeof(q->include.include), "%s", config->include);
  }
  shard_options_set_sample(&q->include, config->sample);
  if (q->listing && q->listing->header->sets && !config->sampled && world.size > 1) {
    return shard_error_set(err, size, -EINVAL, SHARD_SAMPLE_SETS);
  }
  q->key =
      shard_epoch_shuffles(epoch) ? shard_shuffle_key(config->seed, shard_epoch_number(epoch)) : 0;
  shard_share_init(&q->share, config->strategy, config->remainder, (uint32_t)world.rank,
                   (uint32_t)world.size, n, q->key);
  return !q->listing || shard_share_suffices(config->remainder, (uint32_t)world.size, n)
             ? 0
             : shard_error_set(err, size, -EINVAL, SHARD_TOO_FEW, q->listing->source,
                               (unsigned long long)n, (unsigned)world.size);
}

int shard_bucket_run(const struct shard_listing *listing, int64_t epoch, uint64_t *begin,
                     uint64_t *end, char *err, size_t size) {
  struct page_query *q = calloc(1, sizeof(*q));
  struct shard_interval parts[2];
  if (!q) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  q->listing = listing;
  int rc = set_up_query(q, epoch, err, size);
  /* Keys come in the order of paths. */
  bool run = rc == 0 && listing && listing->header->order == SHARD_ORDER_PATH;
  if (run && q->share.strategy == SHARD_STRATEGY_RANGE && !q->share.shuffled) {
    rc = shard_share_intervals(&q->share, parts) == 1;
    *begin = parts[0].begin;
    *end = parts[0].end;
  }
  free(q);
  return rc;
}

int shard_bucket_owned(const struct shard_listing *listing, int64_t epoch, const char *keys,
                       size_t count, size_t skip, int every_name, int dataset, uint8_t *owned,
                       char *err, size_t size) {
  struct page_query *q = calloc(1, sizeof(*q));
  if (!q) {
    return shard_error_set(err, size, -ENOMEM, "out of memory");
  }
  q->listing = listing;
  q->every_name = every_name;
  int rc = set_up_query(q, epoch, err, size);
  for (size_t i = 0; i < count && rc == 0; i++) {
    size_t length = strlen(keys);
    if (length < skip) {
      rc = shard_error_set(err, size, -EINVAL, "'%.300s' is not below the prefix", keys);
      break;
    }
    const char *name = keys + skip;
    size_t n = length - skip;
    rc = refuse_table(q, name, n, err, size);
    if (rc != 0) {
      break;
    }
    bool shared = shard_options_match_path(&q->include, name, n);
    int mine = shared ? owns(q, name, n) : 1;
    if (mine < 0) {
      rc = shard_error_set(err, size, mine, "the listing '%.300s' cannot be searched: %s",
                           listing ? listing->file : "", strerror(-mine));
      break;
    }
    owned[i] = (uint8_t)mine;
    if (mine && shared && !listing && !is_never_listed(name, n)) {
      shard_stats_served(dataset, shard_epoch_number(epoch), name, n);
    }
    keys += length + 1;
  }
  free(q);
  return rc;
}
