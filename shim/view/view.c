/* SPDX-License-Identifier: MIT */
/*
 * view.c - the shard view of directories. The way from opendir() to the first entry; each station
 * knows only the next:
 *
 *   1 opendir()                     interpose/dir.c    libc opens the directory
 *   2 shard_guard_open()            interpose/guard.c  from here on listing calls are our own
 *   3 shard_view_open()             this file          asks the next four in turn:
 *   4   shard_place_find()            place.c          which root's is it, and by which path?
 *   5   shard_datasets_find_rank()    datasets.c       which rank is this?
 *   6   shard_loading_have_listing()  loading.c        what are the names? (cache/cache.c)
 *   7   shard_choose_all()            choose.c         which of them are the rank's?
 *   8 shard_view_read()             this file          readdir() wants a buffer of entries
 *   9 shard_serve_listed()          serve.c            fills it; or shard_serve_filtered()
 *
 * Under the hash strategy, and in a world of one, there is no listing.
 */
#include "view/view.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/kernel.h"
#include "base/xxh64.h"
#include "cache/cache.h"
#include "cache/job.h"
#include "config/config.h"
#include "config/launcher.h"
#include "host/place.h"
#include "host/real.h"
#include "stats/rank_page.h"
#include "stats/stats.h"
#include "view/choose.h"
#include "view/datasets.h"
#include "view/loading.h"
#include "view/once.h"
#include "view/serve.h"

static atomic_int view_now = -1; /* enum shard_view, once decided */

enum shard_view shard_view_asked(void) { return shard_config()->view; }

void shard_view_set(enum shard_view view) { atomic_store(&view_now, (int)view); }

static enum shard_view current_view(void) {
  int view = atomic_load_explicit(&view_now, memory_order_acquire);
  if (view < 0) {
    const struct shard_config *config = shard_config();
    view = (int)config->view;
    if (view == SHARD_VIEW_AUTO) {
      view = config->directories ? SHARD_VIEW_SHARD : SHARD_VIEW_OFF;
    }
    int undecided = -1;
    if (!atomic_compare_exchange_strong(&view_now, &undecided, view)) {
      view = undecided;
    } else if (config->view == SHARD_VIEW_OFF) {
      shard_say(SHARD_LOG_INFO, "SHARD_VIEW=off: this process sees all of SHARD_DATASET");
    }
  }
  return (enum shard_view)view;
}

bool shard_view_active(void) {
  const struct shard_config *config = shard_config();
  if (config->error[0] && config->asked && config->view != SHARD_VIEW_OFF) {
    shard_config_complain();
  }
  return config->directories && current_view() == SHARD_VIEW_SHARD;
}

/* A rank's workers may list before their rank does. */
static void before_fork(void) {
  if (!shard_config()->error[0] && current_view() == SHARD_VIEW_SHARD) {
    shard_job_before_fork();
  }
}

void shard_view_init(void) {
  const struct shard_config *config = shard_config();
  shard_cache_init();
  if (config->directories) {
    pthread_atfork(before_fork, NULL, NULL);
    if (config->view != SHARD_VIEW_OFF && !config->error[0]) {
      shard_rank_page_watch_datasets();
    }
  }
}

void shard_view_leave(void) {
  if (!shard_rank_page_is_unlisted() || current_view() != SHARD_VIEW_SHARD) {
    return;
  }
  int saved = errno;
  struct shard_launcher *found = calloc(1, sizeof(*found));
  if (found) {
    shard_launcher_find(found);
  }
  /* Of the rank's processes the topmost, which the launcher has started; and of one rank of a node.
   */
  if (found && found->rc == 0 && found->world.size > 1 && found->world.local_rank <= 0 &&
      (!found->youngest || found->youngest->age <= 1) && (!found->own || found->own->age <= 1) &&
      shard_rank_page_is_unlisted()) { /* asked again: its parent was there to be found, or not */
    shard_log(SHARD_LOG_WARN,
              "files of SHARD_DATASET were opened, and nobody has listed it: where the "
              "names came from (a pattern such as {00..62}, a CSV), libshard has "
              "divided nothing, and each rank reads all of them");
  }
  free(found);
  errno = saved;
}

/* ---- opened ------------------------------------------------------------- */

/*
 * Whether this rank sees the dataset as it is: in a world of one all is its own. Then statistics
 * learn of it here.
 */
static bool sees_all(const struct shard_view_dataset *d, int64_t epoch) {
  const struct shard_config *config = shard_config();
  struct shard_datasets_rank own = shard_datasets_get_rank();
  if (own.size != 1 || shard_epoch_shuffles(epoch) || config->listing) {
    return false;
  }
  const struct shard_stats_share share = {
      .how = SHARD_LOG_ALL, .rank = own.rank, .size = own.size, .epoch = shard_epoch_number(epoch)};
  shard_stats_share(shard_stats_find(d->path), &share);
  return true;
}

/* Find the rank, after the set-up. 0, or a negative errno and a line. */
static int find_rank(void) {
  static atomic_bool said;
  const struct shard_datasets *all = shard_datasets_get();
  char fault[500];
  const char *why = all->error != 0 ? all->fault : fault;
  fault[0] = 0;
  int rc = all->error != 0 ? all->error : shard_datasets_find_rank(fault, sizeof(fault));
  if (rc != 0 && *why) {
    shard_once_complain(&said, "%s", why);
  }
  return rc;
}

/* Decide how directory fd is served, which lies there in a dataset. */
__attribute__((noinline)) static int serve_place(int fd, struct shard_view_dataset *d,
                                                 const char *path, struct shard_served **out) {
  bool divided =
      shard_config()->strategy != SHARD_STRATEGY_HASH && !shard_datasets_get()->per_epoch;
  int64_t epoch;
  int rc = find_rank();
  shard_run_set_listed(SHARD_RANK_PAGE_LISTED);
  /* Where an offset cannot be told, a directory is read from its beginning. */
  rc = rc ? rc : shard_datasets_find_epoch(d, !*path && lseek(fd, 0, SEEK_CUR) <= 0, &epoch);
  if (rc != 0 || sees_all(d, epoch)) {
    return rc;
  }
  rc = divided ? shard_loading_have_listing(d) : 0;
  if (rc != 0) {
    return rc;
  }
  struct shard_served *s = calloc(1, sizeof(*s) + strlen(path) + 2);
  if (!s) {
    return -ENOMEM;
  }
  strcpy(s->path, path);
  s->base = strlen(path);
  if (s->base > 0) {
    s->path[s->base++] = '/';
  }
  rc = shard_choose_all(s, d, epoch);
  if (rc != 0) {
    free(s);
    return rc;
  }
  *out = s;
  return 0;
}

/* Directory fd is of a root that is not to be served. The errno that is documented for rc. */
__attribute__((noinline)) static int refuse_root(const struct shard_place *place, int rc) {
  static atomic_bool said;
  const struct shard_datasets *all = shard_datasets_get();
  const char *path = all->items[place->which].path;
  if (place->other < all->count) {
    shard_once_complain(
        &said,
        "SHARD_DATASET names '%.300s' and '%.300s', which are one directory, or one lies in "
        "the other; listing calls on both fail: name one of them",
        path, all->items[place->other].path);
  } else {
    shard_once_complain(
        &said, "SHARD_DATASET='%.300s' cannot be listed: %s; %s", path, strerror(-rc),
        rc == -ENAMETOOLONG ? "a directory's path has at most 4095 bytes"
                            : "correct it, mount it anew, or let this user enter the "
                              "directories above it");
  }
  return rc == -EACCES ? -EPERM : rc;
}

/* It cannot be told whether directory fd is of a dataset, so nobody lists it. */
__attribute__((noinline)) static int refuse_unknown(int fd, int rc) {
  static atomic_bool said;
  char name[300];
  ssize_t n = shard_climb_read_path(fd, name, sizeof(name));
  shard_once_complain(
      &said,
      "cannot tell whether directory '%s' is of SHARD_DATASET: %s; listing calls on it fail; "
      "that takes statx(2) or stat(2), leave to enter the directories above it, and /proc; "
      "and nothing may be mounted over it, nor its mount be detached",
      n > 0 ? name : "?", strerror(-rc));
  return rc == -EACCES || rc == -EPERM ? -EPERM : rc == -ESTALE ? rc : -EIO;
}

/* Whether fd is not the directory any more: another thread has closed it. */
__attribute__((noinline)) static bool is_closed(int fd, const struct statx *st) {
  struct statx now;
  return shard_climb_stat(fd, "", &now) == -EBADF ||
         (st->stx_mask && !shard_climb_is_same(st, &now));
}

/* shard_view_open(), once the datasets are set up. */
static int decide(int fd, const struct shard_datasets *all, struct shard_served **out) {
  struct shard_place place;
  struct statx st;
  int rc = shard_climb_stat(fd, "", &st);
  if (rc == -EBADF || (rc == 0 && !S_ISDIR(st.stx_mode))) {
    return rc; /* libc says so better */
  }
  if (rc != 0) {
    st.stx_mask = 0;
  }
  rc = shard_place_find(fd, &st, all->roots, all->count, &place);
  if (rc > 0) {
    rc = serve_place(fd, &all->items[place.which], place.path, out);
    free(place.path);
    return rc;
  }
  if (rc == 0 || rc == -EBADF || shard_error_is_shortage(rc)) {
    return rc;
  }
  return is_closed(fd, &st)         ? -EBADF
         : place.which < all->count ? refuse_root(&place, rc)
                                    : refuse_unknown(fd, rc);
}

int shard_view_open(int fd, struct shard_served **out) {
  int saved = errno;
  const struct shard_datasets *all = shard_datasets_get();
  *out = NULL;
  int rc = all ? decide(fd, all, out) : -ENOMEM;
  errno = saved;
  return rc;
}

void shard_view_close(struct shard_served *s) { free(s); }

/* ---- read --------------------------------------------------------------- */

/* Whether the open directory has been removed: the kernel says ENOENT, and lists nothing. now: fd's
 * offset. A file system in user space may count no links of any directory. */
static bool is_removed(int fd, off_t now) {
  char buf[512] __attribute__((aligned(8)));
  struct stat st;
  if (shard_kernel_fstat(fd, &st) != 0 || st.st_nlink > 0) {
    return false;
  }
  bool removed = shard_real()->getdents64(fd, buf, sizeof(buf)) < 0 && errno == ENOENT;
  lseek(fd, now, SEEK_SET);
  return removed;
}

/* From the listing: the position is ours, and fd's offset. */
static ssize_t read_listed(struct shard_served *s, int fd, void *buf, size_t size,
                           off_t *position) {
  off_t now = lseek(fd, 0, SEEK_CUR);
  if (now < 0 && errno == EBADF) {
    return -EBADF; /* O_PATH, or closed meanwhile: the kernel lists nothing there */
  }
  if (is_removed(fd, now)) {
    return -ENOENT;
  }
  off_t own = position && (s->own_position || now < 0) ? *position : now;
  ssize_t n = own < 0 ? -errno : shard_serve_listed(s, fd, buf, size, &own);
  /* Where a directory's offset cannot be set, a stream keeps its own; a descriptor cannot. */
  if (n > 0 && lseek(fd, own, SEEK_SET) < 0) {
    s->own_position = true;
    n = position ? n : -errno;
  }
  if (position) {
    *position = own;
  }
  return n >= 0 ? n : shard_loading_report_damage(s->scope.listing, (int)n);
}

ssize_t shard_view_read(struct shard_served *s, int fd, void *buf, size_t size, off_t *position) {
  int saved = errno;
  if (s->error) {
    return s->error;
  }
  ssize_t n = s->how == SHARD_SERVED_LISTED ? read_listed(s, fd, buf, size, position)
                                            : shard_serve_filtered(s, fd, buf, size);
  errno = saved;
  /* A directory that has been removed: to libc's readdir() this is the end. */
  return n == -ENOENT && position ? 0 : n;
}

int shard_view_rewind(struct shard_served *s) {
  int64_t epoch;
  int rc = shard_datasets_find_epoch(s->dataset, s->base == 0, &epoch);
  if (rc == 0 && (epoch != s->epoch || s->error)) {
    s->error = shard_choose_all(s, s->dataset, epoch);
  }
  return rc ? rc : s->error; /* what is left of the epoch before is not to be read */
}

uint64_t shard_view_window_key(const struct shard_served *s) {
  bool as_is = s->how != SHARD_SERVED_HASHED || s->key == 0 || shard_config()->window < 2;
  return as_is ? 0 : shard_xxh64(s->path, s->base, s->key) | 1;
}
