/* SPDX-License-Identifier: MIT */
#include "stats/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/workspace.h"
#include "base/xxh64.h"
#include "cache/job.h"
#include "config/config.h"
#include "config/dataset_list.h"
#include "config/path_template.h"
#include "host/inode.h"
#include "listing/options.h"
#include "stats/opens.h"
#include "stats/rank_page.h"

atomic_int shard_stats_state;

/* How this process reads each dataset; a forked child inherits it. */
static struct {
  _Atomic uint64_t epoch;  /* 1 + the epoch in which this process, or a parent, reads it; 0: none */
  _Atomic uint64_t told;   /* shard_log_number() of the log that has a share of it, */
  _Atomic uint64_t latest; /* and a hash of the latest share */
} datasets_read[SHARD_LOG_DATASETS];

void shard_stats_init(void) {
  const struct shard_config *config = shard_config();
  struct shard_options options = {.hidden = true};
  struct shard_dataset_item item;
  char path[PATH_MAX];
  atomic_store(&shard_stats_state, SHARD_STATS_OFF);
  if (!config->stats || config->error[0]) {
    return;
  }
  if (!shard_log_init(config->stats)) {
    shard_log(SHARD_LOG_ERROR, "SHARD_STATS needs Linux 4.14 or later (no statistics are kept)");
    return;
  }
  if (config->include && !(config->listing && shard_path_template_is_manifest(config->listing))) {
    snprintf(options.include, sizeof(options.include), "%s", config->include);
  }
  for (const char *p = config->dataset; p && (p = shard_dataset_list_next(p, &item));) {
    bool bucket = shard_dataset_item_is_bucket(&item);
    size_t n = bucket ? item.url_length : item.path_length;
    if (n < sizeof(path)) {
      memcpy(path, bucket ? item.url : item.path, n);
      path[n] = 0;
      shard_opens_add(path, false, &options);
    }
  }
  atomic_store(&shard_stats_state, SHARD_STATS_ON);
}

void shard_stats_end(void) {
  if (shard_stats_on()) {
    int saved = errno;
    shard_log_end();
    errno = saved;
  }
}

int shard_stats_find(const char *item) {
  return shard_stats_on() ? shard_opens_find(item, false) : -1;
}

/* ---- shares ------------------------------------------------------------- */

/* Note how this process comes to a dataset's names; digest and file may be NULL. */
static void note_share(int i, uint64_t epoch, const struct shard_log_share *how, const char *digest,
                       const char *file) {
  SHARD_WORKSPACE(workspace);
  struct shard_log_share *share = (void *)workspace;
  size_t n = 0;
  if (share) {
    *share = *how;
    n = shard_opens_root(i, share->texts, SHARD_LOG_SHARE_MOST - sizeof(*share) - PATH_MAX);
  }
  if (epoch >= SHARD_LOG_EPOCHS || n == 0) {
    shard_log_lose();
    return;
  }
  share->root_length = (uint32_t)n;
  if (digest) {
    memcpy(share->digest, digest, sizeof(share->digest));
  }
  int fd = file ? shard_kernel_open(AT_FDCWD, file, O_PATH) : -1; /* it may be a relative path */
  ssize_t length = fd < 0 ? 0 : shard_inode_path(fd, share->texts + n, PATH_MAX);
  shard_kernel_close(fd);
  size_t size = sizeof(*share) + n + (length > 0 ? (size_t)length : 0) + 1;
  uint64_t log = shard_log_number(), hash = shard_xxh64(share, size, epoch);
  if (log != 0 && atomic_load(&datasets_read[i].told) == log &&
      (atomic_load(&datasets_read[i].latest) == hash || how->how == SHARD_LOG_UNLISTED)) {
    return;
  }
  shard_log_share(share, size, shard_log_what(epoch, (unsigned)i, SHARD_LOG_SHARE));
  atomic_store(&datasets_read[i].latest, hash);
  atomic_store(&datasets_read[i].told, shard_log_number());
}

void shard_stats_share(int i, const struct shard_stats_share *s) {
  const struct shard_config *config = shard_config();
  struct shard_listing_info info = {0};
  int saved = errno;
  if (i >= 0 && shard_stats_on()) {
    struct shard_log_share share = {.how = s->how,
                                    .strategy = config->strategy,
                                    .rank = s->rank,
                                    .size = s->size,
                                    .shuffled = s->shuffled,
                                    .remainder = s->how == SHARD_LOG_RANKS ? SHARD_REMAINDER_KEEP
                                                                           : config->remainder,
                                    .sample = config->sample,
                                    .seed = s->shuffled ? config->seed : 0};
    if (s->listing) {
      shard_listing_info(s->listing, &info);
    }
    share.entries = share.used = share.needed = info.entries;
    shard_log_set_rank(s->rank, s->size);
    shard_log_set_job(shard_job_number());
    note_share(i, s->epoch, &share, s->listing ? info.digest : NULL, info.file);
    atomic_store(&datasets_read[i].epoch, s->epoch + 1);
  }
  errno = saved;
}

/* Add a dataset that the program divides itself. Returns its number, or -1. */
static int add_program(const char *root, const struct shard_options *options) {
  SHARD_WORKSPACE(path);
  if (!strstr(root, "://")) { /* it may be a relative path */
    int fd = shard_kernel_open(AT_FDCWD, root, O_PATH | O_DIRECTORY);
    root = fd >= 0 && path && shard_inode_path(fd, path, PATH_MAX) > 0 ? path : NULL;
    shard_kernel_close(fd);
  }
  return root ? shard_opens_add(root, true, options) : -1;
}

static const struct shard_options all_names = {.hidden = true};

/* Add the datasets of the rank's page, in a process that was started anew. */
static void learn_datasets(void) {
  static atomic_bool learnt;
  struct shard_rank_page *page = shard_rank_page();
  if (page && page->nonce != 0 && !atomic_exchange(&learnt, true)) {
    for (uint32_t i = 0; i < atomic_load(&page->folders) && i < SHARD_RANK_PAGE_FOLDERS; i++) {
      add_program(page->folder[i].prefix, &all_names);
    }
  }
}

/* Note the share of a program that divides a dataset itself. Returns 0, or -ENOENT. */
static int note_program_share(const char *root, const struct shard_options *options,
                              const struct shard_log_share *share, const char *digest,
                              const char *file) {
  int saved = errno, i = shard_stats_on() ? add_program(root, options) : -1;
  if (i >= 0) {
    note_share(i, 1, share, digest, file);
  }
  errno = saved;
  return i < 0 ? -ENOENT : 0;
}

#define PROGRAM(all, first, most)                                                                  \
  { .how = SHARD_LOG_PROGRAM, .size = 1, .entries = (all), .used = (first), .needed = (most) }

int shard_stats_dataset(const char *root, const struct shard_listing *listing, uint64_t used,
                        uint64_t needed) {
  struct shard_listing_info info;
  struct shard_options options;
  char ignored[1];
  shard_listing_info(listing, &info);
  const struct shard_log_share share = PROGRAM(info.entries, used, needed);
  int rc = shard_options_parse(&options, info.options, ignored, sizeof(ignored));
  return rc ? -ENOENT : note_program_share(root, &options, &share, info.digest, info.file);
}

int shard_stats_names(const char *root, const char digest[65], uint64_t entries, uint64_t used,
                      uint64_t needed) {
  const struct shard_log_share share = PROGRAM(entries, used, needed);
  return note_program_share(root, &all_names, &share, digest, NULL);
}

/* ---- names -------------------------------------------------------------- */

uint64_t shard_stats_hash(const char *name, size_t length) { return shard_xxh64(name, length, 0); }

/* Returns the epoch in which a file of the dataset is opened now. */
static uint64_t epoch_now(int i) {
  uint64_t own = atomic_load(&datasets_read[i].epoch);
  int64_t ranks = own > 0 ? 0 : shard_run_epoch();
  return own > 0                           ? own - 1
         : ranks > 0                       ? (uint64_t)ranks
         : shard_opens_dataset(i)->program ? 1
                                           : shard_epoch_number(shard_config()->epoch);
}

static void note_hash(int i, uint64_t epoch, enum shard_log_kind kind, uint64_t hash) {
  static const struct shard_log_share opens = {.how = SHARD_LOG_UNLISTED, .size = 1};
  if (epoch >= SHARD_LOG_EPOCHS) {
    shard_log_lose();
    return;
  }
  uint64_t log = shard_log_number();
  if (log == 0 || atomic_load(&datasets_read[i].told) != log) {
    note_share(i, epoch, &opens, NULL, NULL);
  }
  shard_log_note(hash, shard_log_what(epoch, (unsigned)i, kind));
}

void shard_stats_opened(int fd, int dirfd, const char *path, int flags) {
  uint64_t hash;
  int saved = errno;
  if (!(flags & (O_PATH | O_DIRECTORY))) { /* O_TMPFILE has the latter */
    learn_datasets();
    int i = shard_opens_locate(fd, dirfd, path, &hash);
    if (i >= 0) {
      note_hash(i, epoch_now(i), SHARD_LOG_OPENED, hash);
    }
  }
  errno = saved;
}

/* Note a name of a dataset. */
static void note_name(int i, uint64_t epoch, enum shard_log_kind kind, const char *name,
                      size_t length) {
  SHARD_WORKSPACE(path);
  size_t n = path && length < PATH_MAX ? shard_opens_root(i, path, PATH_MAX) : 0;
  if (n == 0) {
    shard_log_lose();
    return;
  }
  memcpy(path + n, name, length);
  note_hash(i, epoch, kind, shard_xxh64(path, n + length, 0));
}

void shard_stats_served(int i, uint64_t epoch, const char *name, size_t length) {
  if (i >= 0 && shard_stats_on()) {
    note_name(i, epoch, SHARD_LOG_SERVED, name, length);
  }
}

void shard_stats_object(const char *url, const char *name, size_t length) {
  int saved = errno, i = -1;
  for (int program = 1; program >= 0 && i < 0 && shard_stats_on(); program--) {
    i = shard_opens_find(url, program);
  }
  if (i < 0 &&
      shard_stats_on()) { /* the dataset is known to the process that has started this one */
    i = add_program(url, &all_names);
  }
  bool marker = length == 0 || name[length - 1] == '/';
  if (i >= 0 && !marker &&
      shard_options_match_path(&shard_opens_dataset(i)->options, name, length)) {
    note_name(i, epoch_now(i), SHARD_LOG_OPENED, name, length);
  }
  errno = saved;
}
