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
#include <limits.h>
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

struct known_dir {
  uint64_t dev, ino;
  const char *path;
};

struct dataset {
  char *path;
  atomic_int state; /* a slot for what follows */
  struct shard_listing *listing;
  struct known_dir *dirs; /* by ino, then dev */
  size_t count;
  int error; /* why there is no listing; negative errno, reported */
};

struct shard_stream {
  const struct dataset *dataset;
  size_t base; /* bytes of `path` */
  char path[]; /* the directory relative to the root, and a slash; "" for the root */
};

/*
 * Things that are filled once. A slot is EMPTY, READY, or the pid of the process that fills it:
 * a child forked in the middle finds its parent's pid there and begins anew.
 */
enum { EMPTY = 0, READY = -1 };
static struct {
  atomic_int state;
  struct dataset *datasets;
  size_t count;
  struct shard_world world;
  struct shard_options options;
  char options_text[SHARD_OPTIONS_TEXT];
  int error;
} setup;

static atomic_int view_now = -1; /* enum shard_view, once decided */
static atomic_bool complained;   /* about the configuration */

static void nap(void) { nanosleep(&(struct timespec){0, 1000000}, NULL); }

/* 0: *slot is ours to fill, and then to be set READY; 1: it is READY. */
static int enter(atomic_int *slot) {
  int me = (int)getpid();
  for (;;) {
    int state = atomic_load_explicit(slot, memory_order_acquire);
    if (state == READY) {
      return 1;
    }
    if (state != me && atomic_compare_exchange_strong(slot, &state, me)) {
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

void shard_config_complain(void) {
  const struct shard_config *config = shard_config();
  struct shard_world world;
  char text[600], ignored[300];
  if (!config->error[0] || atomic_exchange(&complained, true)) {
    return;
  }
  /* One line a node: the variables are the job's. */
  if (shard_world_get(&world, ignored, sizeof(ignored)) != 0 || world.local_rank <= 0) {
    snprintf(text, sizeof(text), "%s (%s)", config->error,
             config->dataset ? "until then listing calls on SHARD_DATASET fail, and DLIO runs "
                               "unmodified"
                             : "until then programs run unmodified");
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
  if (config->error[0] && config->view != SHARD_VIEW_OFF) {
    shard_config_complain();
  }
  return config->dataset && current() == SHARD_VIEW_SHARD;
}

static void set_up(void) {
  const struct shard_config *config = shard_config();
  char err[300];
  if (config->error[0]) {
    setup.error = -EINVAL;
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
  size_t room = 1;
  for (const char *p = config->dataset; *p; p++) {
    room += *p == ':';
  }
  setup.datasets = calloc(room, sizeof(*setup.datasets));
  for (const char *p = config->dataset; setup.datasets && *p;) {
    size_t n = strcspn(p, ":");
    char *path = NULL;
    if (n > 0 && asprintf(&path, "%s%s%.*s", *p == '/' ? "" : config->directory,
                          *p == '/' ? "" : "/", (int)n, p) > 0) {
      struct stat st;
      char text[400];
      int fault = stat(path, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
      if (fault) {
        snprintf(text, sizeof(text), "SHARD_DATASET='%.256s': %s", path, strerror(fault));
        complain_once(text);
      }
      setup.datasets[setup.count++].path = path;
    }
    p += n + (p[n] == ':');
  }
  if (!setup.datasets) {
    setup.error = -ENOMEM;
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

/* The dataset whose root has this identity. Roots are looked up anew: one may be mounted later. */
static struct dataset *root_of(const struct stat *st) {
  for (size_t i = 0; i < setup.count; i++) {
    struct stat root;
    if (stat(setup.datasets[i].path, &root) == 0 && root.st_ino == st->st_ino &&
        root.st_dev == st->st_dev) {
      return &setup.datasets[i];
    }
  }
  return NULL;
}

/*
 * Go up from fd until a dataset's root is met; *found NULL if none is. -errno if that cannot be
 * told: then the directory may be ours, and must not be shown whole. Takes a descriptor only
 * for directories deeper than PATH_MAX / 3.
 */
static int find_root(int fd, struct dataset **found) {
  char up[PATH_MAX] = ".";
  size_t length = 1;
  struct stat here, last = {0};
  int at = fd, rc;
  *found = NULL;
  for (;;) {
    rc = fstatat(at, up, &here, 0) == 0 ? 0 : -errno;
    if (rc != 0 || (*found = root_of(&here)) ||
        (here.st_ino == last.st_ino && here.st_dev == last.st_dev)) {
      break;
    }
    last = here;
    if (length + 4 > sizeof(up)) {
      int next = openat(at, up, O_PATH | O_DIRECTORY | O_CLOEXEC);
      rc = next < 0 ? -errno : 0;
      if (at != fd) {
        close(at);
      }
      at = next;
      if (rc != 0) {
        return rc;
      }
      strcpy(up, ".");
      length = 1;
    }
    memcpy(up + length, "/..", 4);
    length += 3;
  }
  if (at != fd) {
    close(at);
  }
  return rc;
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
  if (enter(&d->state) == 0) {
    load(d);
    atomic_store_explicit(&d->state, READY, memory_order_release);
  }
  if (d->error) {
    errno = saved;
    return d->error;
  }
  struct stat st;
  if (fstat(fd, &st) != 0) {
    return -errno;
  }
  struct known_dir key = {st.st_dev, st.st_ino, NULL};
  const struct known_dir *known = bsearch(&key, d->dirs, d->count, sizeof(key), by_inode);
  /* Made after the listing: none of its files is in it. "/" begins no name. */
  const char *path = known ? known->path : "";
  size_t length = strlen(path);
  struct shard_stream *s = malloc(sizeof(*s) + length + 1);
  if (!s) {
    return -ENOMEM;
  }
  s->dataset = d;
  s->base = length;
  memcpy(s->path, path, length + 1);
  if (length > 0 || !known) {
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
  if (s->base + length >= SHARD_NAME_MAX) {
    return 0; /* longer than any name in a listing */
  }
  char *path = __builtin_alloca(s->base + length + 1); /* threads may share a stream */
  memcpy(path, s->path, s->base);
  memcpy(path + s->base, name, length + 1);
  const struct shard_listing *l = s->dataset->listing;
  int64_t i = shard_listing_find(l, path);
  if (i == -ENOENT) {
    return 0;
  }
  if (i < 0) {
    char text[700];
    snprintf(text, sizeof(text), "listing '%.300s' of '%.256s' is damaged; remove it", l->file,
             l->source);
    complain_once(text);
    return (int)i;
  }
  uint32_t owner = shard_owner(shard_config()->strategy, (uint64_t)i, shard_listing_count(l),
                               (uint32_t)setup.world.size);
  return owner == (uint32_t)setup.world.rank;
}
