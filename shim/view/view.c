/* SPDX-License-Identifier: MIT */
/*
 * view.c - the shard view of directories: which view this process has, and a directory's way from
 * being opened to its end.
 *
 * A directory is ours if going up from it meets a dataset's root, compared by device and inode, so
 * it does not matter by which path, link or descriptor it was opened (place.c). Only then is the
 * dataset's listing opened, and built if need be (loading.c); under the hash strategy there is
 * none. The directory's place in the listing is its path from the root. Where the listing has a
 * directory of its inode and times, there is no need to look for the path (datasets.c).
 */
#include "view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "cache/job.h"
#include "config/config.h"
#include "stats/stats.h"
#include "view/choose.h"
#include "view/datasets.h"
#include "view/loading.h"
#include "view/once.h"
#include "view/serve.h"

static atomic_int view_now = -1; /* enum shard_view, once decided */

enum shard_view shard_view_asked(void) { return shard_config()->view; }

void shard_view_set(enum shard_view view) {
  atomic_store(&view_now, (int)view);
  shard_stats_view(view);
}

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
  if (shard_view_active()) {
    shard_job_before_fork();
  }
}

void shard_view_init(void) {
  if (shard_config()->directories) {
    pthread_atfork(before_fork, NULL, NULL);
  }
}

/* ---- opened ------------------------------------------------------------- */

/* Have the listing of the dataset that directory *st was found in. 0 or negative errno. */
static int have_listing(const struct statx *st, struct shard_datasets_place *place) {
  static atomic_bool said;
  const struct shard_datasets *all = shard_datasets_get();
  char fault[500];
  const char *why = all->error != 0 ? all->fault : fault;
  fault[0] = 0;
  int rc = all->error != 0 ? all->error : shard_datasets_find_rank(fault, sizeof(fault));
  if (rc != 0 && *why) {
    shard_once_complain(&said, why);
  }
  bool divided = shard_config()->strategy != SHARD_STRATEGY_HASH && !all->per_epoch;
  if (rc == 0 && (divided || shard_loading_is_streamed(place->dataset))) {
    rc = shard_loading_have_listing(place->dataset);
    /* Opened only now, it may know the directory by an older name: as it will from now on. */
    struct shard_datasets_place listed;
    int found = rc == 0 ? shard_datasets_find_listed(st, &listed) : 0;
    if (found > 0) {
      free(place->path);
      *place = listed;
    }
    rc = found < 0 ? found : rc;
  }
  return rc;
}

/* Decide how directory fd is served, which was found there. place->path is freed. */
__attribute__((noinline)) static int serve_place(int fd, const struct statx *st,
                                                 struct shard_datasets_place *place,
                                                 struct shard_served **out) {
  struct shard_served *s = NULL;
  int rc = have_listing(st, place);
  if (rc == 0) {
    size_t length = strlen(place->path);
    s = calloc(1, sizeof(*s) + length + 2);
    rc = s ? 0 : -ENOMEM;
  }
  if (rc == 0) {
    strcpy(s->path, place->path);
    s->base = strlen(s->path);
    if (s->base > 0) {
      s->path[s->base++] = '/';
    }
    s->covered = place->covered;
    rc = shard_choose_all(s, place->dataset, fd);
  }
  free(place->path);
  if (rc != 0) {
    free(s);
    return rc;
  }
  *out = s;
  return 0;
}

/*
 * It cannot be told whether directory fd is of a dataset, so nobody lists it. The errno that is
 * documented for rc. *st: what it was at first; `of`: the dataset whose root cannot be looked at,
 * or NULL.
 */
__attribute__((noinline)) static int refuse_unknown(int fd, const struct statx *st,
                                                    const struct shard_view_dataset *of, int rc) {
  static atomic_bool said;
  char text[900], name[300] = "?";
  struct statx now;
  int again = shard_climb_stat(fd, "", &now);
  if (rc == -EBADF || again == -EBADF ||
      (again == 0 && st->stx_mask && !shard_climb_is_same(&now, st))) {
    return -EBADF; /* another thread has closed it */
  }
  if (shard_error_is_shortage(rc)) {
    return rc;
  }
  if (of) {
    snprintf(text, sizeof(text),
             "SHARD_DATASET='%.300s' cannot be looked at: %s; all listing calls fail, as what they "
             "list may be of it: correct it, or let this user enter the directories above it",
             of->path, strerror(-rc));
  } else {
    char link[40];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, name, sizeof(name) - 1);
    name[n > 0 ? n : 1] = 0;
    snprintf(text, sizeof(text),
             "cannot tell whether directory '%s' is of SHARD_DATASET: %s; listing calls on it "
             "fail; that takes statx(2) or stat(2), leave to enter the directories above it, "
             "and /proc",
             name, strerror(-rc));
  }
  shard_once_complain(&said, text);
  if (rc == -EACCES || rc == -EPERM) {
    return -EPERM;
  }
  return of && (rc == -ENOTDIR || rc == -ENAMETOOLONG) ? -EINVAL : -EIO;
}

/* shard_datasets_find(), anew if names or mounts have changed while it looked at them. */
static int find_place(int fd, const struct statx *st, struct shard_datasets_place *place) {
  for (int tries = 1;; tries++) {
    int rc = shard_datasets_find(fd, st, place);
    bool again = rc < 0 ? rc != -EBADF && !shard_error_is_shortage(rc) : rc > 0 && place->covered;
    if (!again || tries == 3) {
      return rc;
    }
    if (rc > 0) {
      free(place->path);
    }
  }
}

int shard_view_open(int fd, struct shard_served **out) {
  int saved = errno, rc = -ENOMEM, found = 0;
  struct shard_datasets_place place = {.dataset = NULL};
  struct statx st;
  st.stx_mask = 0;
  *out = NULL;
  if (shard_datasets_get()) {
    rc = shard_climb_stat(fd, "", &st);
    if (rc == -EBADF || (rc == 0 && !S_ISDIR(st.stx_mode))) {
      rc = 0; /* libc says so better */
    } else if (rc == 0) {
      found = find_place(fd, &st, &place);
      rc = found < 0 ? found : 0;
    }
  }
  if (found > 0) {
    rc = serve_place(fd, &st, &place, out);
  } else if (rc != 0) {
    rc = refuse_unknown(fd, &st, place.dataset, rc);
  }
  errno = saved;
  return rc;
}

void shard_view_close(struct shard_served *s) { free(s); }

/* Whether the kernel has the same path for both. Not known: no. */
static bool have_one_path(int a, int b) {
  char *text = malloc((size_t)2 * PATH_MAX);
  bool same = text && shard_climb_read_path(a, text, PATH_MAX) > 0 &&
              shard_climb_read_path(b, text + PATH_MAX, PATH_MAX) > 0 &&
              strcmp(text, text + PATH_MAX) == 0;
  free(text);
  return same;
}

/* By the kernel's names: a file system in user space may number a directory anew at each look. */
__attribute__((noinline)) static bool leads_by_path(int at, const char *name, int fd,
                                                    const struct statx *st) {
  struct statx there;
  int other = shard_kernel_open(at, name, O_PATH | O_DIRECTORY);
  bool same = other >= 0 && shard_climb_stat(other, "", &there) == 0 &&
              shard_climb_device(&there) == shard_climb_device(st) && have_one_path(fd, other);
  shard_kernel_close(other);
  return same;
}

bool shard_view_leads_to(int at, const char *name, int fd) {
  int saved = errno;
  struct statx st, there;
  bool same = shard_climb_stat(fd, "", &st) != 0 || /* libc says so better */
              (shard_climb_stat(at, name, &there) == 0 && shard_climb_is_same(&st, &there)) ||
              leads_by_path(at, name, fd, &st);
  errno = saved;
  return same;
}

/* ---- read --------------------------------------------------------------- */

/* From the listing, or a stream of parts: the position is ours, and fd's offset. */
static ssize_t read_listed(struct shard_served *s, int fd, void *buf, size_t size,
                           off_t *position) {
  char err[700] = "";
  off_t now = lseek(fd, 0, SEEK_CUR);
  if (now < 0 && errno == EBADF) {
    return -EBADF; /* O_PATH, or closed meanwhile: the kernel lists nothing there */
  }
  off_t own = position && (s->own_position || now < 0) ? *position : now;
  ssize_t n;
  if (own < 0) {
    n = -errno;
  } else if (s->how == SHARD_SERVED_LISTED) {
    n = shard_serve_listed(s, fd, buf, size, &own);
  } else {
    n = shard_serve_streamed(s, fd, buf, size, &own, err, sizeof(err));
  }
  /* Where a directory's offset cannot be set, a stream keeps its own; a descriptor cannot. */
  if (n > 0 && lseek(fd, own, SEEK_SET) < 0) {
    s->own_position = true;
    n = position ? n : -errno;
  }
  if (position) {
    *position = own;
  }
  if (n >= 0) {
    return n;
  }
  if (s->scope.listing) {
    return shard_loading_report_damage(s->scope.listing, (int)n);
  }
  return *err ? shard_loading_report_broken((int)n, err) : n == -EBADMSG ? -EIO : n;
}

ssize_t shard_view_read(struct shard_served *s, int fd, void *buf, size_t size, off_t *position) {
  int saved = errno;
  if (s->error) {
    return s->error;
  }
  bool listed = s->how == SHARD_SERVED_LISTED || s->how == SHARD_SERVED_STREAMED;
  ssize_t n =
      listed ? read_listed(s, fd, buf, size, position) : shard_serve_filtered(s, fd, buf, size);
  errno = saved;
  return n;
}

void shard_view_end(struct shard_served *s) {
  if (s->passes && s->base == 0) {
    shard_passes_end(s->passes, s->epoch);
  }
}

int shard_view_rewind(struct shard_served *s) {
  uint64_t epoch = s->epoch;
  if (s->passes) {
    epoch = s->base == 0 ? shard_passes_begin(s->passes) : shard_passes_epoch(s->passes);
  }
  if (epoch != s->epoch || s->error) {
    s->epoch = epoch;
    s->error = shard_choose_epoch(s); /* what is left of the epoch before is not to be read */
  }
  return s->error;
}

uint64_t shard_view_window_key(const struct shard_served *s) {
  bool hashed = s->how == SHARD_SERVED_HASHED || s->how == SHARD_SERVED_STREAMED;
  bool as_is = !hashed || s->key == 0 || shard_config()->window < 2;
  return as_is ? 0 : shard_xxh64(s->path, s->base, s->key) | 1;
}
