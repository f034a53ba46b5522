/* SPDX-License-Identifier: MIT */
/*
 * view.c - the shard view of directories. From opendir() to the first entry, each step knows only
 * the next:
 *
 *   1 opendir()                     interpose/dir.c    libc opens the directory
 *   2 shard_guard_open()            interpose/guard.c  listing calls from here on are libshard's
 *   3 shard_view_open()             this file          asks the next four in turn:
 *   4   shard_locate_directory()      host/locate.c    which root's is it, and by which path?
 *   5   shard_datasets_find_rank()    datasets.c       which rank is this?
 *   6   shard_load_listing()          load.c           what are the names? (cache/cache.c)
 *   7   shard_prepare_directory()     prepare.c        which of them are the rank's?
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
#include "base/workspace.h"
#include "base/xxh64.h"
#include "cache/cache.h"
#include "cache/job.h"
#include "config/config.h"
#include "config/launcher.h"
#include "host/locate.h"
#include "host/real.h"
#include "stats/rank_page.h"
#include "stats/stats.h"
#include "view/datasets.h"
#include "view/load.h"
#include "view/once.h"
#include "view/prepare.h"
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

/* Prepares for workers that list before their rank does. */
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
      shard_rank_page_make_for_datasets();
    }
  }
}

void shard_view_at_exit(void) {
  if (!shard_rank_page_is_unlisted() || current_view() != SHARD_VIEW_SHARD) {
    return;
  }
  int saved = errno;
  struct shard_launcher *found = calloc(1, sizeof(*found));
  if (found) {
    shard_launcher_find(found);
  }
  /* Only the rank's highest process, which the launcher has started, in one rank of a node. */
  if (found && found->rc == 0 && found->world.size > 1 && found->world.local_rank <= 0 &&
      (!found->youngest || found->youngest->age <= 1) &&
      (!found->explicit || found->explicit->age <= 1) &&
      shard_rank_page_is_unlisted()) { /* again: if the parent has ended, the walk missed it */
    shard_log(
        SHARD_LOG_WARN,
        "files of SHARD_DATASET were opened, but nobody has listed the dataset: libshard does "
        "not divide names from elsewhere (a pattern such as {00..62}, a CSV), so each rank "
        "reads all files");
  }
  free(found);
  errno = saved;
}

/* ---- opened ------------------------------------------------------------- */

/*
 * Returns whether this rank sees the dataset as it is, because in a world of one the share is the
 * dataset. If so, also tells the statistics.
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

/* Finds the rank. Errors: a line was printed. */
static int find_rank(void) {
  static atomic_bool reported;
  const struct shard_datasets *all = shard_datasets_get();
  char fault[500];
  const char *why = all->error != 0 ? all->fault : fault;
  fault[0] = 0;
  int rc = all->error != 0 ? all->error : shard_datasets_find_rank(fault, sizeof(fault));
  if (rc != 0 && *why) {
    shard_once_report(&reported, "%s", why);
  }
  return rc;
}

/* Decides how directory fd is served, which lies at `path` in dataset d. */
__attribute__((noinline)) static int serve_located(int fd, struct shard_view_dataset *d,
                                                   const char *path,
                                                   struct shard_served_dir **out) {
  bool divided =
      shard_config()->strategy != SHARD_STRATEGY_HASH && !shard_datasets_get()->per_epoch;
  int64_t epoch;
  int rc = find_rank();
  shard_run_set_listed(SHARD_RANK_PAGE_LISTED);
  /* A directory whose offset is unknown counts as read from its beginning. */
  rc = rc ? rc : shard_datasets_find_epoch(d, !*path && lseek(fd, 0, SEEK_CUR) <= 0, &epoch);
  if (rc != 0 || sees_all(d, epoch)) {
    return rc;
  }
  rc = divided ? shard_load_listing(d) : 0;
  if (rc != 0) {
    return rc;
  }
  struct shard_served_dir *s = calloc(1, sizeof(*s) + strlen(path) + 2);
  if (!s) {
    return -ENOMEM;
  }
  strcpy(s->path, path);
  s->path_bytes = strlen(path);
  if (s->path_bytes > 0) {
    s->path[s->path_bytes++] = '/';
  }
  rc = shard_prepare_directory(s, d, epoch);
  if (rc != 0) {
    free(s);
    return rc;
  }
  *out = s;
  return 0;
}

/* Prints a line about a directory of a root that cannot be served. Returns the documented errno. */
__attribute__((noinline)) static int refuse_root(const struct shard_location *place, int rc) {
  static atomic_bool reported;
  const struct shard_datasets *all = shard_datasets_get();
  const char *path = all->items[place->which].path;
  if (place->other < all->count) {
    shard_once_report(
        &reported,
        "SHARD_DATASET names '%.300s' and '%.300s', which are the same directory, or one lies in "
        "the other; listing calls on both fail: name one of the two",
        path, all->items[place->other].path);
  } else {
    shard_once_report(&reported, "SHARD_DATASET='%.300s' cannot be listed: %s; %s", path,
                      strerror(-rc),
                      rc == -ENAMETOOLONG
                          ? "a directory's path has at most 4095 bytes"
                          : "correct the path, mount the directory again, or let this user search "
                            "the directories above");
  }
  return rc == -EACCES ? -EPERM : rc;
}

/* Prints a line: it is unknown whether directory fd belongs to a dataset. Returns
 * the documented errno. */
__attribute__((noinline)) static int refuse_unknown(int fd, int rc) {
  static atomic_bool reported;
  char name[300];
  ssize_t n = shard_inode_path(fd, name, sizeof(name));
  shard_once_report(
      &reported,
      "cannot tell whether directory '%s' is of SHARD_DATASET: %s; listing calls on it fail. "
      "libshard "
      "needs statx(2) or stat(2), leave to search the directories above, and /proc; nothing may be "
      "mounted over the directory, and its mount must not be detached",
      n > 0 ? name : "?", strerror(-rc));
  return rc == -EACCES || rc == -EPERM ? -EPERM : rc == -ESTALE ? rc : -EIO;
}

/* Returns whether another thread has closed fd, so that it is not the directory st any more. */
__attribute__((noinline)) static bool is_closed(int fd, const struct statx *st) {
  struct statx now;
  return shard_inode_stat(fd, "", &now) == -EBADF ||
         (st->stx_mask && !shard_inode_is_same(st, &now));
}

/* Does shard_locate_directory()'s work. *path: malloc'd after 1, for the caller to free. */
__attribute__((noinline)) static int locate(int fd, const struct statx *st,
                                            const struct shard_datasets *all,
                                            struct shard_location *place, char **path) {
  SHARD_WORKSPACE(found);
  place->which = all->count;
  int rc = found ? shard_locate_directory(fd, st, all->roots, all->count, place, found) : -ENOMEM;
  *path = rc > 0 ? strdup(found) : NULL;
  return rc > 0 && !*path ? -ENOMEM : rc;
}

/* Does shard_view_open()'s work after the datasets are set up. */
static int decide_directory(int fd, const struct shard_datasets *all,
                            struct shard_served_dir **out) {
  struct shard_location place;
  struct statx st;
  int rc = shard_inode_stat(fd, "", &st);
  if (rc == -EBADF || (rc == 0 && !S_ISDIR(st.stx_mode))) {
    return rc; /* libc reports it */
  }
  if (rc != 0) {
    st.stx_mask = 0;
  }
  char *path;
  rc = locate(fd, &st, all, &place, &path);
  if (rc > 0) {
    rc = serve_located(fd, &all->items[place.which], path, out);
    free(path);
    return rc;
  }
  if (rc == 0 || rc == -EBADF || shard_error_is_shortage(rc)) {
    return rc;
  }
  return is_closed(fd, &st)         ? -EBADF
         : place.which < all->count ? refuse_root(&place, rc)
                                    : refuse_unknown(fd, rc);
}

int shard_view_open(int fd, struct shard_served_dir **out) {
  int saved = errno;
  const struct shard_datasets *all = shard_datasets_get();
  *out = NULL;
  int rc = all ? decide_directory(fd, all, out) : -ENOMEM;
  errno = saved;
  return rc;
}

void shard_view_close(struct shard_served_dir *s) { free(s); }

/* ---- read --------------------------------------------------------------- */

/* Returns whether the open directory was removed: then the kernel's getdents64() fails with ENOENT.
 * The link count is not enough: a FUSE file system may give 0 links to any directory. now: fd's
 * offset. */
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

/* Reads entries from the listing. fd's offset is the position. */
static ssize_t read_listed(struct shard_served_dir *s, int fd, void *buf, size_t size,
                           off_t *position) {
  off_t now = lseek(fd, 0, SEEK_CUR);
  if (now < 0 && errno == EBADF) {
    return -EBADF; /* opened with O_PATH, or closed meanwhile */
  }
  if (is_removed(fd, now)) {
    return -ENOENT;
  }
  off_t own = position && (s->own_position || now < 0) ? *position : now;
  ssize_t n = own < 0 ? -errno : shard_serve_listed(s, fd, buf, size, &own);
  /* If the file system cannot set a directory's offset, a stream keeps its own; a descriptor
   * cannot. */
  if (n > 0 && lseek(fd, own, SEEK_SET) < 0) {
    s->own_position = true;
    n = position ? n : -errno;
  }
  if (position) {
    *position = own;
  }
  return n >= 0 ? n : shard_load_report_damage(s->scope.listing, (int)n);
}

ssize_t shard_view_read(struct shard_served_dir *s, int fd, void *buf, size_t size,
                        off_t *position) {
  int saved = errno;
  if (s->error) {
    return s->error;
  }
  ssize_t n = s->source == SHARD_SERVE_LISTED ? read_listed(s, fd, buf, size, position)
                                              : shard_serve_filtered(s, fd, buf, size);
  errno = saved;
  /* libc's readdir() takes -ENOENT, of a removed directory, for the end. */
  return n == -ENOENT && position ? 0 : n;
}

int shard_view_rewind(struct shard_served_dir *s) {
  int64_t epoch;
  int rc = shard_datasets_find_epoch(s->dataset, s->path_bytes == 0, &epoch);
  if (rc == 0 && (epoch != s->epoch || s->error)) {
    s->error = shard_prepare_directory(s, s->dataset, epoch);
  }
  return rc ? rc : s->error; /* after an error nothing of the former epoch may be read */
}

uint64_t shard_view_window_key(const struct shard_served_dir *s) {
  bool as_is = s->source != SHARD_SERVE_HASHED || s->key == 0 || shard_config()->window < 2;
  return as_is ? 0 : shard_xxh64(s->path, s->path_bytes, s->key) | 1;
}
