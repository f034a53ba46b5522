/* SPDX-License-Identifier: MIT */
/*
 * walk.c - reads a tree's directories in several threads.
 *
 * One thread reads a directory, a buffer of entries at a time. An idle thread may take a buffer
 * over, with what its entries cost: the stats where the file system gives no types, and the CPU
 * time where the directory is long. Nothing depends on which thread takes which entry, as the
 * sorter puts the names in order. When all directories have been read, the same threads look at
 * each one once more.
 */
#include "source/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/filesystem.h"
#include "base/path.h"
#include "build/intake.h"
#include "build/memory.h"
#include "config/config.h"
#include "libshard.h"
#include "listing/identity.h"

/* FUSE asks for as many entries at once as there is room for. Until the walk ends, the builder
 * leaves the threads' buffers a quarter of its memory. */
#define BUFFER_MOST ((size_t)256 << 10)
#define BUFFER_LEAST ((size_t)32 << 10)
_Static_assert(BUFFER_LEAST <= SHARD_BUILD_MEMORY_LEAST / 4 / SHARD_WALK_THREADS, "buffers");
#define BUFFER_UNTYPED                                                                             \
  ((size_t)8 << 10)             /* where a stat an entry follows: work for many threads            \
                                 */
#define STACK_SIZE (256u << 10) /* a thread touches some 20 KB of it */
#define SAMPLE_NSEC 2000000
/* The kernel stamps ctimes by a clock that ticks every 1/CONFIG_HZ s, 10 ms at most. */
#define TICK_NSEC 20000000L
#define SKEW_NSEC 10000000000LL /* between a server's clock and this host's */

struct dirent_raw {
  uint64_t ino;
  int64_t off;
  unsigned short reclen;
  unsigned char type;
  char name[];
};
#define LINK_TO_DIR 0x80 /* in `type`, beside DT_LNK: set by find_kind() */

/* A directory that waits to be read, or is being read. */
struct directory {
  struct directory *next;
  int fd;
  uint32_t level; /* its entries'; those of the root are at level 1 */
  size_t users;   /* its reader, and buffers that have been passed on */
  size_t length;
  char path[]; /* relative to the root; "" for the root */
};

struct buffer {
  struct directory *dir; /* that the entries are of */
  long used;
  char dents[];
};

struct walker;

/* What the threads share. */
struct tree {
  const char *name; /* the root, */
  int root;         /* open */
  pthread_mutex_t mutex;
  struct directory *pending;
  _Atomic(struct walker *) idle; /* threads that wait; changed under the mutex */
  size_t busy;                   /* threads that have a directory or a buffer */
  size_t started, most, buffer_size;
  struct walker *walkers[SHARD_WALK_THREADS];
  pthread_attr_t attributes;
  pthread_mutex_t hands[SHARD_INTAKE_HANDS]; /* threads share the intake's hands */
  atomic_size_t looked;                      /* directories that a thread has looked at once more */
  int rc;
  struct shard_intake *intake;
  char *err;
  size_t size;
};

/* A thread's own. */
struct walker {
  struct tree *tree;
  pthread_t id;
  pthread_cond_t wake;
  struct walker *next; /* idle, too */
  bool idle, given;    /* given: another thread has filled the buffer */
  /* Of its time, in ns: when the present sample began; spent since then on the other threads, as on
   * locks; and what read_delay() told last. */
  int64_t wall, cpu, away, delay;
  struct shard_intake_hand *hand;
  pthread_mutex_t *hand_mutex;
  uint64_t dirs_hidden, dir_links;
  struct shard_identity_eye eye;
  struct buffer *buffer; /* its own or another thread's, which then has this one's */
  char error[512];
  char path[SHARD_NAME_MAX];
};

#define fail(w, rc, ...) shard_error_set((w)->error, sizeof((w)->error), rc, __VA_ARGS__)

/* A directory cannot be opened, read or stat'ed. Below the root it was there a moment ago: if it
 * has gone, -EAGAIN. */
static int fail_directory(struct walker *w, const char *what, const char *path) {
  bool gone = *path && (errno == ENOENT || errno == ENOTDIR || errno == ESTALE);
  return fail(w, gone ? -EAGAIN : -errno, "cannot %s directory '%.300s': %s%s", what,
              *path ? path : ".", strerror(errno),
              gone              ? "; the tree is changing"
              : errno == EACCES ? "; make it readable"
                                : "");
}

/* ---- the threads ---- */

static int64_t read_clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* For how long the calling thread has been ready to run, and others had the CPUs; 0 if the kernel
 * does not tell. */
static int64_t read_delay(void) {
  char text[80] = "";
  int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
  shard_file_close(fd);
  const char *second = n > 0 ? strchr(text, ' ') : NULL;
  return second ? strtoll(second, NULL, 10) : 0;
}

static void begin_sample(struct walker *w) {
  w->wall = read_clock(CLOCK_MONOTONIC);
  w->cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
  w->away = 0;
}

static void *walk_directories(void *context);

/* A new thread's; of an error nothing is told, as the walk goes on with fewer threads. */
static struct walker *make_walker(struct tree *t) {
  struct walker *w = calloc(1, sizeof(*w));
  struct buffer *b = malloc(sizeof(*b) + t->buffer_size);
  if (w && b) {
    size_t hand = t->started % SHARD_INTAKE_HANDS;
    w->tree = t;
    w->hand = &t->intake->hands[hand];
    w->hand_mutex = &t->hands[hand];
    w->eye.lazily = true; /* it looks once more */
    w->buffer = b;
    pthread_cond_init(&w->wake, NULL);
    t->walkers[t->started++] = w;
    return w;
  }
  free(b);
  free(w);
  return NULL;
}

static void free_walker(struct walker *w) {
  pthread_cond_destroy(&w->wake);
  free(w->buffer);
  free(w);
}

/* Start one thread more, under the mutex. NULL: no more can be, or may be. */
static struct walker *start_thread(struct tree *t) {
  struct walker *w = t->started < t->most && t->rc == 0 ? make_walker(t) : NULL;
  if (w && pthread_create(&w->id, &t->attributes, walk_directories, w) != 0) {
    free_walker(w);
    w = NULL;
    t->started--;
  }
  if (!w) {
    t->most = t->started; /* no further try */
  }
  return w;
}

/*
 * This alone decides how many threads walk. The calling thread has work that it could share, and
 * nobody is idle: shall another thread be started? Yes, if it has slept for most of the time since
 * the last sample, and not over locks. Then it has waited for the file system, and another thread
 * can wait beside it. So threads come as long as all of them sleep, each over work of its own.
 * Where the kernel has the directories at hand, a thread works or waits for a CPU, however busy the
 * CPUs are, and none is started.
 */
static bool wants_thread(struct walker *w) {
  int64_t wall = w->wall, cpu = w->cpu, away = w->away, delay = w->delay;
  if (read_clock(CLOCK_MONOTONIC) - wall < SAMPLE_NSEC) {
    return false;
  }
  begin_sample(w);
  int64_t most = (w->wall - wall) / 2, awake = w->cpu - cpu;
  if (away >= most || awake >= most) {
    return false;
  }
  w->delay = read_delay(); /* that takes longer than the clocks */
  return awake + w->delay - delay < most;
}

/* Wake an idle thread, under the mutex. NULL: there is none. */
static struct walker *wake_thread(struct tree *t) {
  struct walker *w = t->idle;
  if (w) {
    t->idle = w->next;
    w->idle = false;
    pthread_cond_signal(&w->wake);
  }
  return w;
}

/* Wait for work, under the mutex. false: there is no more. */
static bool await_work(struct walker *w) {
  struct tree *t = w->tree;
  while (t->rc == 0 && !w->given && !t->pending && t->busy > 0) {
    w->next = t->idle;
    t->idle = w;
    w->idle = true;
    while (w->idle) {
      pthread_cond_wait(&w->wake, &t->mutex);
    }
  }
  return t->rc == 0 && (w->given || t->pending);
}

static int push_directory(struct walker *w, const char *path, size_t length, uint32_t level) {
  struct directory *d = malloc(sizeof(*d) + length + 1);
  if (!d) {
    return fail(w, -ENOMEM, "out of memory");
  }
  *d = (struct directory){.fd = -1, .level = level, .users = 1, .length = length};
  memcpy(d->path, path, length);
  d->path[length] = 0;
  pthread_mutex_lock(&w->tree->mutex);
  d->next = w->tree->pending;
  w->tree->pending = d;
  wake_thread(w->tree);
  pthread_mutex_unlock(&w->tree->mutex);
  return 0;
}

/* End the use of a directory. */
static void release_directory(struct tree *t, struct directory *dir) {
  pthread_mutex_lock(&t->mutex);
  bool last = --dir->users == 0;
  pthread_mutex_unlock(&t->mutex);
  if (last) {
    shard_file_close(dir->fd);
    free(dir);
  }
}

/* ---- entries ---- */

static bool is_dots(const char *name) {
  return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Whether only the file system can tell what kind an entry is of, by a stat. */
static bool lacks_kind(const struct walker *w, const struct dirent_raw *d) {
  return (d->type == DT_UNKNOWN || d->type == DT_LNK) && !is_dots(d->name) &&
         (d->name[0] != '.' || w->tree->intake->options->hidden);
}

/* Replace DT_UNKNOWN, and mark a link that leads to a directory. false and errno if that cannot be
 * told: a directory that was taken for a file would be a listing without its files. */
static bool find_kind(int fd, struct dirent_raw *d) {
  struct stat st;
  long rc = 0;
  if (d->type == DT_UNKNOWN &&
      (rc = TEMP_FAILURE_RETRY(fstatat(fd, d->name, &st, AT_SYMLINK_NOFOLLOW))) == 0) {
    d->type = IFTODT(st.st_mode);
  }
  if (rc == 0 && d->type == DT_LNK &&
      (rc = TEMP_FAILURE_RETRY(fstatat(fd, d->name, &st, 0))) == 0 && S_ISDIR(st.st_mode)) {
    d->type |= LINK_TO_DIR;
  }
  return rc == 0 || shard_path_leads_nowhere(errno);
}

static int take_entry(struct walker *w, const struct dirent_raw *d, size_t base, uint32_t level) {
  const struct shard_options *o = w->tree->intake->options;
  const char *name = d->name;
  if (is_dots(name)) {
    return 0;
  }
  if (name[0] == '.' && !o->hidden) {
    return 0;
  }
  size_t length = strlen(name);
  if (base + length >= sizeof(w->path)) {
    return fail(w, -ENAMETOOLONG, "a path below '%.200s...' is longer than %zu bytes", w->path,
                sizeof(w->path) - 1);
  }
  const char *path = name;
  if (base > 0) {
    memcpy(w->path + base, name, length + 1);
    path = w->path;
  }
  unsigned char type = d->type & ~LINK_TO_DIR;
  bool file = d->type != DT_DIR && type == d->type;
  bool matches = shard_options_match(o, name, length);
  if (file && matches && (o->exact == 0 || o->exact == level)) {
    return shard_intake_add_entry(w->hand, path, base + length, d->ino, type);
  }
  int rc = o->attributes ? shard_intake_add_other(w->hand, path, base + length, d->ino, type) : 0;
  if (rc != 0 || file) {
    return rc;
  }
  if (o->depth != 0 && level >= o->depth) {
    w->dirs_hidden += matches;
    return 0;
  }
  if (type == DT_LNK && !o->follow) {
    w->dir_links++;
    return 0;
  }
  return push_directory(w, path, base + length, level + 1);
}

/* Give the buffer's entries to the intake. Whoever waits for the file system has no hand. */
static int take_entries(struct walker *w) {
  struct buffer *b = w->buffer;
  const struct directory *dir = b->dir;
  size_t base = dir->length;
  memcpy(w->path, dir->path, base);
  if (base) {
    w->path[base++] = '/';
  }
  for (long at = 0; at < b->used;) {
    struct dirent_raw *d = (struct dirent_raw *)(b->dents + at);
    at += d->reclen;
    if (lacks_kind(w, d) && !find_kind(dir->fd, d)) {
      bool gone = errno == ESTALE && d->type == DT_UNKNOWN; /* not what a link leads to */
      return fail(w, gone ? -EAGAIN : -errno,
                  "cannot tell whether '%.300s%s%.255s' is a directory: %s", dir->path,
                  base ? "/" : "", d->name, strerror(errno));
    }
  }
  int rc = 0;
  int64_t begun = read_clock(CLOCK_MONOTONIC);
  pthread_mutex_lock(w->hand_mutex);
  for (long at = 0; rc == 0 && at < b->used;) {
    const struct dirent_raw *d = (const struct dirent_raw *)(b->dents + at);
    at += d->reclen;
    rc = take_entry(w, d, base, dir->level);
  }
  pthread_mutex_unlock(w->hand_mutex);
  w->away += read_clock(CLOCK_MONOTONIC) - begun;
  return rc;
}

/* Let an idle thread, or a new one, take the buffer's entries, if they cost more than to wake it.
 */
static bool pass_on(struct walker *w) {
  struct tree *t = w->tree;
  struct buffer *b = w->buffer;
  bool idle = t->idle, wanted = !idle && wants_thread(w), costly = b->used > (long)BUFFER_LEAST / 2;
  for (long at = 0; (idle || wanted) && !costly && at < b->used;) {
    const struct dirent_raw *d = (const struct dirent_raw *)(b->dents + at);
    at += d->reclen;
    costly = lacks_kind(w, d);
  }
  if (!wanted && !(idle && costly)) {
    return false;
  }
  pthread_mutex_lock(&t->mutex);
  struct walker *other = wake_thread(t);
  if (!other && wanted) {
    other = start_thread(t);
  }
  if (other && costly) {
    w->buffer = other->buffer;
    other->buffer = b;
    other->given = true;
    b->dir->users++;
    t->busy++;
  }
  pthread_mutex_unlock(&t->mutex);
  return other && costly;
}

/* ---- a directory ---- */

/* Whether the file system gives entries no type: the first one tells. */
static bool is_untyped(const struct buffer *b) {
  const struct dirent_raw *d;
  for (long at = 0; at < b->used; at += d->reclen) {
    d = (const struct dirent_raw *)(b->dents + at);
    if (!is_dots(d->name)) {
      return d->type == DT_UNKNOWN;
    }
  }
  return false;
}

/* Read entries to the end. */
static int read_entries(struct walker *w, struct directory *dir) {
  for (size_t room = BUFFER_LEAST;;) {
    struct buffer *b = w->buffer;
    b->dir = dir;
    b->used = TEMP_FAILURE_RETRY(syscall(SYS_getdents64, dir->fd, b->dents, room));
    if (b->used <= 0) {
      return b->used == 0 ? 0 : fail_directory(w, "read", dir->path);
    }
    room = is_untyped(b) ? BUFFER_UNTYPED : w->tree->buffer_size;
    int rc = pass_on(w) ? 0 : take_entries(w);
    if (rc != 0) {
      return rc;
    }
  }
}

/* Whether the clock of a server gives the directory's times. */
static bool has_far_clock(int fd) {
  struct statfs fs;
  return fstatfs(fd, &fs) != 0 || shard_filesystem_network_name((unsigned)fs.f_type);
}

/*
 * Wait until the next change of the directory is sure to give it another ctime: until the present
 * one lies a whole tick back. Where a server's clock is not this host's, or the clock was set back,
 * age says little; then it is enough that a tick has gone by since the ctime was seen.
 */
static void wait_a_tick(int fd, struct stat *st) {
  struct timespec seen = {0};
  for (int k = 0; k < 200; k++) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    /* A ctime of whole seconds: the file system may store no more. */
    bool whole = st->st_ctim.tv_nsec == 0;
    int64_t tick = whole ? 2000000000 : TICK_NSEC;
    int64_t age =
        (now.tv_sec - st->st_ctim.tv_sec) * 1000000000LL + now.tv_nsec - st->st_ctim.tv_nsec;
    bool old = age >= SKEW_NSEC || (age >= tick && !has_far_clock(fd));
    if (old || (age < -SKEW_NSEC && whole) || (k > 0 && shard_clock_same(seen, st->st_ctim))) {
      return;
    }
    seen = st->st_ctim;
    nanosleep(&(struct timespec){tick / 1000000000, tick % 1000000000}, NULL);
    if (fstat(fd, st) != 0) {
      return;
    }
  }
}

/* All of the directory was read: report it, unless it has changed since `before`. */
static int end_directory(struct walker *w, const struct directory *dir, const struct stat *before) {
  struct shard_dir after;
  if (TEMP_FAILURE_RETRY(shard_identity_look(&w->eye, dir->fd, "", &after)) != 0) {
    return fail_directory(w, "stat", dir->path);
  }
  if (after.ctime_sec != before->st_ctim.tv_sec || after.ctime_nsec != before->st_ctim.tv_nsec ||
      after.mtime_sec != before->st_mtim.tv_sec || after.mtime_nsec != before->st_mtim.tv_nsec) {
    return fail(w, -EAGAIN, "directory '%.300s' changed while it was listed",
                *dir->path ? dir->path : ".");
  }
  return shard_intake_add_directory(w->hand, &after, dir->path);
}

static int read_directory(struct walker *w, struct directory *dir) {
  struct tree *t = w->tree;
  struct stat before;
  dir->fd = (int)TEMP_FAILURE_RETRY(shard_path_open(t->root, dir->path, O_RDONLY));
  if (dir->fd < 0) {
    return fail_directory(w, "open", dir->path);
  }
  if (TEMP_FAILURE_RETRY(fstat(dir->fd, &before)) != 0) {
    return fail_directory(w, "stat", dir->path);
  }
  wait_a_tick(dir->fd, &before);
  int rc = read_entries(w, dir);
  return rc == 0 ? end_directory(w, dir, &before) : rc;
}

/* ---- the walk ---- */

/*
 * Check that every directory is still as it was when it was read. Else a file that was moved during
 * the walk could be in both places, or in none. 0 or -EAGAIN.
 */
static int look_again(struct walker *w) {
  struct tree *t = w->tree;
  const struct shard_intake *in = t->intake;
  int root = open(t->name, O_PATH | O_DIRECTORY | O_CLOEXEC),
      rc = 0; /* by its name, as it is now */
  w->eye.lazily = false;
  for (size_t i; rc == 0 && (i = atomic_fetch_add(&t->looked, 1)) < in->dirs_count;) {
    const struct shard_intake_directory *d = &in->dirs[i];
    struct shard_dir now;
    bool seen =
        root >= 0 && TEMP_FAILURE_RETRY(shard_identity_look(&w->eye, root, d->path, &now)) == 0;
    if (!seen || memcmp(&now, &d->id, sizeof(now)) != 0) {
      atomic_store(&t->looked, in->dirs_count); /* the others need not go on */
      rc = seen ? fail(w, -EAGAIN, "directory '%.300s' changed while the tree was listed",
                       *d->path ? d->path : ".")
                : fail_directory(w, "stat", d->path);
    }
    if (wants_thread(w)) {
      pthread_mutex_lock(&t->mutex);
      start_thread(t);
      pthread_mutex_unlock(&t->mutex);
    }
  }
  shard_file_close(root);
  return rc;
}

/* Keep the first error; under the mutex. Its text is "" if what the intake says tells more. */
static void keep_error(struct walker *w, int rc) {
  struct tree *t = w->tree;
  if (rc != 0 && t->rc == 0) {
    t->rc = rc;
    if (*w->error) {
      snprintf(t->err, t->size, "'%.200s': %s", t->name, w->error);
    }
  }
}

/* A thread: does what work there is, until all directories have been read; then looks again. */
static void *walk_directories(void *context) {
  struct walker *w = context;
  struct tree *t = w->tree;
  begin_sample(w);
  int64_t left = w->wall;
  pthread_mutex_lock(&t->mutex);
  while (await_work(w)) {
    struct directory *dir = w->given ? w->buffer->dir : t->pending;
    if (!w->given) {
      t->pending = dir->next;
      t->busy++; /* else whoever gave the buffer has counted this thread */
    }
    pthread_mutex_unlock(&t->mutex);
    w->away += read_clock(CLOCK_MONOTONIC) - left;
    int rc = w->given ? take_entries(w) : read_directory(w, dir);
    left = read_clock(CLOCK_MONOTONIC);
    w->given = false;
    release_directory(t, dir);
    pthread_mutex_lock(&t->mutex);
    t->busy--;
    keep_error(w, rc);
  }
  while (wake_thread(t)) { /* they will find the end, too */
  }
  t->intake->dirs_hidden += w->dirs_hidden;
  t->intake->dir_links += w->dir_links;
  int rc = t->rc;
  pthread_mutex_unlock(&t->mutex);
  if (w->given) { /* another thread has failed meanwhile */
    release_directory(t, w->buffer->dir);
  }
  rc = rc == 0 ? look_again(w) : 0;
  pthread_mutex_lock(&t->mutex);
  keep_error(w, rc);
  pthread_mutex_unlock(&t->mutex);
  return NULL;
}

/* Each has three open at most: a long path is opened in steps. So many threads leave most
 * descriptors alone. */
static size_t count_descriptors(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (size_t)limit.rlim_cur / 8 : 1;
}

static size_t count_started(struct tree *t) {
  pthread_mutex_lock(&t->mutex);
  size_t started = t->started;
  pthread_mutex_unlock(&t->mutex);
  return started;
}

int shard_walk(const char *root, struct shard_intake *intake, size_t threads, char *err,
               size_t size) {
  struct tree t = {.name = root, .intake = intake, .err = err, .size = size};
  size_t most = count_descriptors(), room = shard_memory_for_names() / 4 / SHARD_WALK_THREADS;
  t.buffer_size = room < BUFFER_LEAST ? BUFFER_LEAST : room > BUFFER_MOST ? BUFFER_MOST : room;
  most = most > threads ? threads : most;
  t.most = most < 1 ? 1 : most;
  intake->dirs_hidden = intake->dir_links = 0;
  pthread_mutex_init(&t.mutex, NULL);
  for (size_t i = 0; i < SHARD_INTAKE_HANDS; i++) {
    pthread_mutex_init(&t.hands[i], NULL);
  }
  pthread_attr_init(&t.attributes);
  pthread_attr_setstacksize(&t.attributes, STACK_SIZE);
  t.root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  struct walker *first = make_walker(&t);
  if (t.root < 0) {
    t.rc = shard_error_set(err, size, -errno, "cannot open directory '%.300s': %s", root,
                           strerror(errno));
  } else if (!first || push_directory(first, "", 0, 1) != 0) {
    t.rc = shard_error_set(err, size, -ENOMEM, "'%.200s': out of memory", root);
  } else {
    /* So many can work at once where none waits: each has a hand of its own. */
    pthread_mutex_lock(&t.mutex);
    while (t.started < t.most && t.started < SHARD_INTAKE_HANDS) {
      start_thread(&t);
    }
    pthread_mutex_unlock(&t.mutex);
    walk_directories(first);
  }
  for (size_t i = 1; i < count_started(&t); i++) {
    pthread_join(t.walkers[i]->id, NULL);
  }
  while (t.pending) {
    struct directory *dir = t.pending;
    t.pending = dir->next;
    release_directory(&t, dir);
  }
  for (size_t i = 0; i < t.started; i++) {
    free_walker(t.walkers[i]);
  }
  shard_file_close(t.root);
  pthread_attr_destroy(&t.attributes);
  for (size_t i = 0; i < SHARD_INTAKE_HANDS; i++) {
    pthread_mutex_destroy(&t.hands[i]);
  }
  pthread_mutex_destroy(&t.mutex);
  return t.rc;
}
