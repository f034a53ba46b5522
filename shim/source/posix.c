/* SPDX-License-Identifier: MIT */
#include "source/posix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libshard.h"
#include "listing/below.h"

#define DENTS_SIZE (256u << 10)
/* A coarse clock stamps mtimes every 1/CONFIG_HZ s: 10 ms at the most. */
#define TICK_NSEC 20000000L

struct dirent_raw {
  uint64_t ino;
  int64_t off;
  unsigned short reclen;
  unsigned char type;
  char name[];
};

/* A directory still to be read. */
struct pending {
  struct pending *next;
  uint32_t level; /* of its entries; the root's are at level 1 */
  char path[];    /* relative to the root; "" for the root */
};

/* What the threads share. */
struct tree {
  int root;
  const struct shard_options *options;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct pending *pending;
  size_t busy; /* threads that read a directory */
  int rc;
  struct shard_walk_facts *facts;
};

/* A thread's own. */
struct walk {
  struct tree *tree;
  struct shard_sink *sink;
  uint64_t dirs_hidden, dir_links;
  char *dents;
  char path[SHARD_NAME_MAX];
  char error[sizeof(((struct shard_walk_facts *)0)->error)];
};

__attribute__((format(printf, 3, 4))) static int fail(struct walk *w, int rc, const char *format,
                                                      ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(w->error, sizeof(w->error), format, args);
  va_end(args);
  return rc;
}

static int push(struct walk *w, const char *path, size_t length, uint32_t level) {
  struct pending *p = malloc(sizeof(*p) + length + 1);
  if (!p) {
    return fail(w, -ENOMEM, "out of memory");
  }
  memcpy(p->path, path, length);
  p->path[length] = 0;
  p->level = level;
  pthread_mutex_lock(&w->tree->mutex);
  p->next = w->tree->pending;
  w->tree->pending = p;
  pthread_cond_signal(&w->tree->changed);
  pthread_mutex_unlock(&w->tree->mutex);
  return 0;
}

enum kind { KIND_FILE, KIND_DIR, KIND_DIR_LINK };

/* A link to a directory counts as a directory; what cannot be looked at is a file. */
static enum kind kind_of(int fd, const char *name, unsigned char *type) {
  struct stat st;
  if (*type == DT_UNKNOWN && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
    *type = IFTODT(st.st_mode);
  }
  if (*type == DT_DIR) {
    return KIND_DIR;
  }
  if (*type == DT_LNK && fstatat(fd, name, &st, 0) == 0 && S_ISDIR(st.st_mode)) {
    return KIND_DIR_LINK;
  }
  return KIND_FILE;
}

static int one_entry(struct walk *w, int fd, const struct dirent_raw *d, size_t base,
                     uint32_t level) {
  const struct shard_options *o = w->tree->options;
  struct shard_sink *sink = w->sink;
  const char *name = d->name;
  if (name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]) || !o->hidden)) {
    return 0;
  }
  size_t length = strlen(name);
  if (base + length >= sizeof(w->path)) {
    w->path[base] = 0;
    return fail(w, -ENAMETOOLONG, "a path below '%.200s...' is longer than %zu bytes", w->path,
                sizeof(w->path) - 1);
  }
  unsigned char type = d->type;
  enum kind kind = kind_of(fd, name, &type);
  memcpy(w->path + base, name, length + 1);
  bool matches = shard_options_match(o, name, length);
  if (kind == KIND_FILE && matches && (o->exact == 0 || o->exact == level)) {
    return sink->entry(sink->context, w->path, base + length, d->ino, type);
  }
  int rc = o->attributes ? sink->other(sink->context, w->path, base + length, d->ino, type) : 0;
  if (rc != 0 || kind == KIND_FILE) {
    return rc;
  }
  if (o->depth != 0 && level >= o->depth) {
    w->dirs_hidden += matches;
    return 0;
  }
  if (kind == KIND_DIR_LINK && !o->follow) {
    w->dir_links++;
    return 0;
  }
  return push(w, w->path, base + length, level + 1);
}

static bool same_time(struct timespec a, struct timespec b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Wait until the directory's mtime lies a whole tick back. */
static void settle(int fd, struct stat *st) {
  for (int k = 0; k < 200; k++) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    /* Whole seconds: a file system that stores no more. */
    long tick = st->st_mtim.tv_nsec == 0 ? 2000000000L : TICK_NSEC;
    int64_t age =
        (now.tv_sec - st->st_mtim.tv_sec) * 1000000000LL + now.tv_nsec - st->st_mtim.tv_nsec;
    if (age >= tick || age < 0) {
      return;
    }
    struct timespec nap = {(tick - age) / 1000000000L, (tick - age) % 1000000000L};
    nanosleep(&nap, NULL);
    if (fstat(fd, st) != 0) {
      return;
    }
  }
}

static int read_directory(struct walk *w, const struct pending *dir) {
  size_t base = strlen(dir->path);
  int fd = shard_open_below(w->tree->root, dir->path, O_RDONLY);
  if (fd < 0) {
    /* One that was there a moment ago: the tree is changing. */
    int rc = base && (errno == ENOENT || errno == ENOTDIR) ? -EAGAIN : -errno;
    return fail(w, rc, "cannot open directory '%.300s': %s%s", base ? dir->path : ".",
                strerror(errno),
                rc == -EAGAIN     ? "; the tree is changing"
                : errno == EACCES ? "; make it readable"
                                  : "");
  }
  memcpy(w->path, dir->path, base);
  if (base) {
    w->path[base++] = '/';
  }
  struct stat before, after;
  int rc = fstat(fd, &before) == 0 ? 0 : fail(w, -errno, "fstat: %s", strerror(errno));
  if (rc == 0) {
    settle(fd, &before);
  }
  while (rc == 0) {
    long n = syscall(SYS_getdents64, fd, w->dents, DENTS_SIZE);
    if (n < 0) {
      bool gone = base && errno == ENOENT; /* removed since it was opened */
      rc = fail(w, gone ? -EAGAIN : -errno, "cannot read directory '%.300s': %s%s",
                base ? dir->path : ".", strerror(errno), gone ? "; the tree is changing" : "");
    }
    if (n <= 0) {
      break;
    }
    for (long at = 0; rc == 0 && at < n;) {
      const struct dirent_raw *d = (const struct dirent_raw *)(w->dents + at);
      at += d->reclen;
      rc = one_entry(w, fd, d, base, dir->level);
    }
  }
  if (rc == 0 && fstat(fd, &after) != 0) {
    rc = fail(w, -errno, "fstat: %s", strerror(errno));
  }
  close(fd);
  if (rc == 0 && !same_time(before.st_mtim, after.st_mtim)) {
    return fail(w, -EAGAIN, "directory '%.300s' changed while it was listed",
                base ? dir->path : ".");
  }
  if (rc == 0) {
    rc = w->sink->directory(w->sink->context, after.st_dev, after.st_ino, after.st_mtim, dir->path);
  }
  return rc;
}

static void *walk(void *context) {
  struct walk *w = context;
  struct tree *t = w->tree;
  pthread_mutex_lock(&t->mutex);
  for (;;) {
    while (!t->pending && t->busy > 0 && t->rc == 0) {
      pthread_cond_wait(&t->changed, &t->mutex);
    }
    struct pending *dir = t->pending;
    if (!dir || t->rc != 0) {
      break;
    }
    t->pending = dir->next;
    t->busy++;
    pthread_mutex_unlock(&t->mutex);
    int rc = read_directory(w, dir);
    free(dir);
    pthread_mutex_lock(&t->mutex);
    t->busy--;
    if (rc != 0 && t->rc == 0) {
      t->rc = rc;
      memcpy(t->facts->error, w->error, sizeof(w->error));
    }
  }
  t->facts->dirs_hidden += w->dirs_hidden;
  t->facts->dir_links += w->dir_links;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->mutex);
  return NULL;
}

int shard_posix_walk(const char *root, const struct shard_options *options,
                     struct shard_sink *sinks, size_t threads, struct shard_walk_facts *facts) {
  struct tree t = {.options = options, .facts = facts};
  struct walk *walks[SHARD_WALKERS] = {NULL};
  pthread_t ids[SHARD_WALKERS];
  size_t started = 1;
  *facts = (struct shard_walk_facts){0};
  pthread_mutex_init(&t.mutex, NULL);
  pthread_cond_init(&t.changed, NULL);
  threads = threads > SHARD_WALKERS ? SHARD_WALKERS : threads < 1 ? 1 : threads;
  for (size_t i = 0; i < threads && t.rc == 0; i++) {
    walks[i] = calloc(1, sizeof(*walks[i]));
    if (!walks[i] || !(walks[i]->dents = malloc(DENTS_SIZE))) {
      snprintf(facts->error, sizeof(facts->error), "out of memory");
      t.rc = -ENOMEM;
    } else {
      walks[i]->tree = &t;
      walks[i]->sink = &sinks[i];
    }
  }
  t.root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (t.rc == 0 && t.root < 0) {
    t.rc = -errno;
    snprintf(facts->error, sizeof(facts->error), "cannot open directory '%.300s': %s", root,
             strerror(errno));
  }
  if (t.rc == 0 && walks[0]) {
    t.rc = push(walks[0], "", 0, 1);
  }
  /* Fewer threads than wanted will do. */
  bool more = t.rc == 0, begun = more;
  while (more && started < threads) {
    more = pthread_create(&ids[started], NULL, walk, walks[started]) == 0;
    started += more;
  }
  if (begun && walks[0]) {
    walk(walks[0]);
  }
  for (size_t i = 1; i < started; i++) {
    pthread_join(ids[i], NULL);
  }
  while (t.pending) {
    struct pending *dir = t.pending;
    t.pending = dir->next;
    free(dir);
  }
  for (size_t i = 0; i < threads; i++) {
    if (walks[i]) {
      free(walks[i]->dents);
      free(walks[i]);
    }
  }
  if (t.root >= 0) {
    close(t.root);
  }
  pthread_mutex_destroy(&t.mutex);
  pthread_cond_destroy(&t.changed);
  return t.rc;
}
