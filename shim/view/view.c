/* SPDX-License-Identifier: MIT */
/*
 * view.c - the shard view of directories.
 *
 * A directory is ours if a dataset's root is reached from it by going up, compared by device and
 * inode, so it does not matter by which path, link or descriptor it was opened. Only then is the
 * listing opened (and built, if need be); a directory's place in it is found by device and inode
 * again. Names that came after the listing was made are not seen: a process keeps the listing it
 * began with.
 */
#include "view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "listing/listing.h"
#include "listing/options.h"
#include "shard/shard.h"

#define MOST_DATASETS 32

struct known_dir {
  uint64_t dev, ino;
  const char *path;
};

struct dataset {
  char *path;
  struct shard_listing *listing;
  struct known_dir *dirs; /* by ino, then dev */
  size_t count;
  int error; /* why there is no listing; negative errno, reported */
};

struct shard_stream {
  const struct dataset *dataset;
  size_t base;               /* bytes of the prefix in `path` */
  char path[SHARD_NAME_MAX]; /* the directory relative to the root, and a slash */
};

/* The datasets, filled once: EMPTY -> BUSY -> READY. */
enum { EMPTY, BUSY, READY };
static struct {
  atomic_int state;
  _Atomic pid_t owner; /* who is BUSY; a forked child takes over from a dead copy */
  struct dataset datasets[MOST_DATASETS];
  size_t count;
  struct shard_world world;
  struct shard_options options;
  char options_text[1200];
  int error;
} setup;

static atomic_int view_now = -1; /* enum shard_view, once decided */
static atomic_bool complained;   /* about the configuration */

static void nap(void) { nanosleep(&(struct timespec){0, 1000000}, NULL); }

/* 0: *slot is ours to fill, in state BUSY; 1: it is READY. Fork-proof: see owner. */
static int enter(atomic_int *slot) {
  for (;;) {
    int state = atomic_load_explicit(slot, memory_order_acquire);
    if (state == READY) {
      return 1;
    }
    if (state == EMPTY && atomic_compare_exchange_strong(slot, &state, BUSY)) {
      atomic_store(&setup.owner, getpid());
      return 0;
    }
    if (state == BUSY && atomic_load(&setup.owner) != getpid() && atomic_load(&setup.owner) != 0) {
      atomic_store(&setup.owner, getpid());
      return 0;
    }
    nap();
  }
}

static void complain_once(const char *text) {
  if (!atomic_exchange(&complained, true)) {
    shard_log(SHARD_LOG_ERROR, text);
  }
}

void shard_view_set(enum shard_view view) { atomic_store(&view_now, (int)view); }

static enum shard_view current(void) {
  int view = atomic_load_explicit(&view_now, memory_order_acquire);
  if (view < 0) {
    const struct shard_config *config = shard_config();
    view = (int)config->view;
    if (view == SHARD_VIEW_AUTO) {
      view = config->dataset ? SHARD_VIEW_SHARD : SHARD_VIEW_OFF;
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
  if (config->error[0] && config->view != SHARD_VIEW_OFF && !config->dataset) {
    complain_once(config->error);
  }
  return config->dataset && current() == SHARD_VIEW_SHARD;
}

static void set_up(void) {
  const struct shard_config *config = shard_config();
  char err[300];
  if (config->error[0]) {
    setup.error = -EINVAL;
    complain_once(config->error);
  } else if (shard_world_get(&setup.world, err, sizeof(err)) != 0) {
    setup.error = -EINVAL;
    complain_once(err);
  }
  setup.options = (struct shard_options){.hidden = true};
  if (config->include) {
    if (strlen(config->include) >= sizeof(setup.options.include)) {
      setup.error = -EINVAL;
      complain_once("SHARD_INCLUDE is too long");
    } else {
      strcpy(setup.options.include, config->include);
    }
  }
  shard_options_format(&setup.options, setup.options_text, sizeof(setup.options_text));
  const char *p = config->dataset;
  while (*p && setup.count < MOST_DATASETS) {
    size_t n = strcspn(p, ":");
    if (n > 0) {
      char *path = strndup(p, n);
      if (!path) {
        setup.error = -ENOMEM;
        return;
      }
      struct stat st;
      char text[400];
      if (stat(path, &st) != 0) {
        snprintf(text, sizeof(text), "SHARD_DATASET='%.256s': %s", path, strerror(errno));
        complain_once(text);
      } else if (!S_ISDIR(st.st_mode)) {
        snprintf(text, sizeof(text), "SHARD_DATASET='%.256s' is not a directory", path);
        complain_once(text);
      }
      setup.datasets[setup.count++].path = path;
    }
    p += n + (p[n] == ':');
  }
}

static int by_inode(const void *pa, const void *pb) {
  const struct known_dir *a = pa, *b = pb;
  if (a->ino != b->ino) {
    return a->ino < b->ino ? -1 : 1;
  }
  return (a->dev > b->dev) - (a->dev < b->dev);
}

static void load(struct dataset *d) {
  char err[700], text[900];
  int rc = shard_dataset_open(d->path, setup.options_text, &d->listing, err, sizeof(err));
  if (rc != 0) {
    d->error = rc;
    snprintf(text, sizeof(text), "%s; listing calls on '%.100s' fail", err, d->path);
    shard_log(SHARD_LOG_ERROR, text);
    return;
  }
  const uint8_t *pos = NULL;
  struct shard_dir_entry entry;
  size_t n = 0;
  d->dirs = calloc(d->listing->header->directories + 1, sizeof(*d->dirs));
  if (!d->dirs) {
    d->error = -ENOMEM;
    return;
  }
  while (n < d->listing->header->directories && shard_listing_dir(d->listing, &pos, &entry)) {
    d->dirs[n++] = (struct known_dir){entry.id.dev, entry.id.ino, entry.path};
  }
  qsort(d->dirs, n, sizeof(*d->dirs), by_inode);
  d->count = n;
}

/*
 * Go up from fd until a dataset's root is met; *found NULL if none is. -errno if that cannot be
 * told: then the directory may be ours, and must not be shown whole.
 */
static int find_root(int fd, struct dataset **found) {
  struct stat roots[MOST_DATASETS], here, last = {0};
  bool known[MOST_DATASETS];
  for (size_t i = 0; i < setup.count; i++) {
    known[i] = stat(setup.datasets[i].path, &roots[i]) == 0;
  }
  *found = NULL;
  int rc = 0;
  for (int at = fd;;) {
    rc = fstat(at, &here) == 0 ? 0 : -errno;
    bool top = here.st_ino == last.st_ino && here.st_dev == last.st_dev;
    for (size_t i = 0; rc == 0 && i < setup.count && !*found; i++) {
      if (known[i] && roots[i].st_ino == here.st_ino && roots[i].st_dev == here.st_dev) {
        *found = &setup.datasets[i];
      }
    }
    last = here;
    int up = rc == 0 && !*found && !top ? openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (rc == 0 && !*found && !top && up < 0) {
      rc = -errno;
    }
    if (at != fd) {
      close(at);
    }
    if (up < 0) {
      return rc;
    }
    at = up;
  }
}

int shard_view_open(int fd, struct shard_stream **out) {
  *out = NULL;
  int saved = errno;
  if (enter(&setup.state) == 0) {
    setup.count = 0;
    set_up();
    atomic_store_explicit(&setup.state, READY, memory_order_release);
  }
  struct dataset *d;
  int rc = find_root(fd, &d);
  errno = saved;
  if (rc != 0 || !d) {
    /* Not a directory, or not a descriptor at all: libc says so better. And what lies below a
     * directory we may not enter was not reached through the dataset. */
    return rc == -ENOTDIR || rc == -EBADF || rc == -EACCES ? 0 : rc;
  }
  if (setup.error) {
    return setup.error;
  }
  static atomic_int loading[MOST_DATASETS];
  atomic_int *slot = &loading[d - setup.datasets];
  if (enter(slot) == 0) {
    load(d);
    atomic_store_explicit(slot, READY, memory_order_release);
  }
  if (d->error) {
    errno = saved;
    return d->error;
  }
  struct stat st;
  if (fstat(fd, &st) != 0) {
    return -errno;
  }
  struct shard_stream *s = malloc(sizeof(*s));
  if (!s) {
    return -ENOMEM;
  }
  s->dataset = d;
  s->path[s->base = 0] = 0;
  struct known_dir key = {st.st_dev, st.st_ino, NULL};
  const struct known_dir *known = bsearch(&key, d->dirs, d->count, sizeof(key), by_inode);
  if (!known) {
    /* Made after the listing: none of its files is in it. "/" begins no name. */
    s->path[s->base++] = '/';
  } else if (*known->path) {
    s->base = strlen(known->path);
    memcpy(s->path, known->path, s->base);
    s->path[s->base++] = '/';
  }
  *out = s;
  errno = saved;
  return 0;
}

static bool is_directory(int fd, const char *name, unsigned char type) {
  if (type != DT_DIR && type != DT_LNK && type != DT_UNKNOWN) {
    return false;
  }
  struct stat st;
  return type == DT_DIR || (fstatat(fd, name, &st, 0) == 0 && S_ISDIR(st.st_mode));
}

int shard_view_sees(struct shard_stream *s, int fd, const char *name, unsigned char type) {
  size_t length = strlen(name);
  if (is_directory(fd, name, type) || !shard_options_match(&setup.options, name, length)) {
    return 1;
  }
  if (s->base + length >= sizeof(s->path)) {
    return -ENAMETOOLONG;
  }
  memcpy(s->path + s->base, name, length + 1);
  const struct shard_listing *l = s->dataset->listing;
  int64_t i = shard_listing_find(l, s->path);
  if (i < 0) {
    return i == -ENOENT ? 0 : (int)i;
  }
  uint32_t owner = shard_owner(shard_config()->strategy, (uint64_t)i, shard_listing_count(l),
                               (uint32_t)setup.world.size);
  return owner == (uint32_t)setup.world.rank;
}
