/* SPDX-License-Identifier: MIT */
/*
 * walk.c - reads a tree's directories: each by one thread, a long one of ext4 by several.
 *
 * ext4 lists a directory that has an index (htree) by ascending hash of the names, and an entry's
 * position (d_off) is its hash. So a thread may begin in the middle, by lseek. But completeness
 * does not depend on this. The thread that reads the part before goes on until it meets the very
 * entry that the other thread began with: the same inode, name, type and d_off. From there on both
 * descriptors would show the same, as a d_off determines what follows it (an NFS server reads
 * directories so, call by call). If the two do not meet, or positions do not ascend, the walk fails
 * by -EAGAIN, and the caller walks again without parts. If a name is read twice, the writer
 * notices.
 */
#include "source/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#include "libshard.h"
#include "listing/identity.h"

#define DENTS_SIZE (256u << 10)
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

/* Directories of this size or more are read in parts; one takes less than 2 ms. */
#define SPLIT_LEAST ((off_t)256 << 10)
#define PARTS SHARD_INTAKE_HANDS

/*
 * OPEN: nobody reads the part yet, so the reader of the part before may go on into it. BEGUN: it
 * has a reader, but its first entry is not known yet. MET: its first entry is known. ENDED: it has
 * no entry. GONE: another reader went on into it, or its own has failed.
 */
enum part_state { PART_OPEN, PART_BEGUN, PART_MET, PART_ENDED, PART_GONE };

struct split_part {
  int64_t from; /* the position where it begins */
  enum part_state state;
  /* Its first entry: */
  uint64_t ino;
  int64_t off;
  unsigned char type;
  char name[NAME_MAX + 1];
};

/* A directory that is read in parts. */
struct split {
  struct stat before;
  size_t left;  /* parts that are not read to their end */
  size_t users; /* threads that read it, and parts among the pending */
  struct split_part parts[PARTS];
};

/* A directory that waits to be read, or a part of one. */
struct pending_directory {
  struct pending_directory *next;
  struct split *split; /* NULL: the whole directory */
  size_t part;
  uint32_t level; /* its entries'; those of the root are at level 1 */
  char path[];    /* relative to the root; "" for the root */
};

/* What the threads share. */
struct tree {
  const char *name; /* the root, */
  int root;         /* open */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct pending_directory *pending;
  size_t busy; /* threads that are reading a directory */
  bool in_parts;
  int rc;
  struct shard_intake *intake;
  char *err;
  size_t size;
};

/* A thread's own. */
struct walker {
  struct tree *tree;
  struct shard_intake_hand *hand;
  uint64_t dirs_hidden, dir_links;
  uint64_t counted;                  /* with options->chunk: entries so far */
  const struct shard_options *match; /* what names are compared with */
  struct shard_options one;          /* the options with a single pattern */
  struct shard_identity_eye eye;
  char *dents;
  char path[SHARD_NAME_MAX];
  char error[512];
};

#define fail(w, rc, ...) shard_error_set((w)->error, sizeof((w)->error), rc, __VA_ARGS__)

static int push_directory(struct walker *w, const char *path, size_t length, uint32_t level,
                          struct split *split, size_t part) {
  struct pending_directory *p = malloc(sizeof(*p) + length + 1);
  if (!p) {
    return fail(w, -ENOMEM, "out of memory");
  }
  p->split = split;
  p->part = part;
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

enum entry_kind { KIND_FILE, KIND_DIR, KIND_DIR_LINK };

/* The kind of an entry, or a negative errno if that cannot be told: a directory that was taken for
 * a file would be a listing without its files. *type: DT_UNKNOWN is replaced. */
static int find_kind(int fd, const char *name, unsigned char *type) {
  struct stat st;
  int rc = 0;
  if (*type == DT_UNKNOWN && (rc = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW)) == 0) {
    *type = IFTODT(st.st_mode);
  }
  if (rc == 0 && *type == DT_DIR) {
    return KIND_DIR;
  }
  if (rc == 0 && *type == DT_LNK && (rc = fstatat(fd, name, &st, 0)) == 0 && S_ISDIR(st.st_mode)) {
    return KIND_DIR_LINK;
  }
  return rc == 0 || shard_path_leads_nowhere(errno) ? KIND_FILE : -errno;
}

static int take_entry(struct walker *w, int fd, const struct dirent_raw *d, size_t base,
                      uint32_t level) {
  const struct shard_options *o = w->tree->intake->options;
  const char *name = d->name;
  if (name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]))) {
    return 0;
  }
  if (o->chunk && o->depth == 1) {
    w->hand->chunk = w->counted++ / o->chunk;
  }
  if (name[0] == '.' && !o->hidden) {
    return 0;
  }
  size_t length = strlen(name);
  if (base + length >= sizeof(w->path)) {
    return fail(w, -ENAMETOOLONG, "a path below '%.200s...' is longer than %zu bytes", w->path,
                sizeof(w->path) - 1);
  }
  unsigned char type = d->type;
  const char *path = name;
  if (base > 0) {
    memcpy(w->path + base, name, length + 1);
    path = w->path;
  }
  int kind = find_kind(fd, name, &type);
  if (kind < 0) {
    return fail(w, kind, "cannot tell whether '%.300s' is a directory: %s", path, strerror(-kind));
  }
  bool matches = shard_options_match(w->match, name, length);
  if (kind == KIND_FILE && matches && o->chunk && o->depth == 2 && level == 2) {
    w->hand->chunk = w->counted++ / o->chunk;
  }
  if (kind == KIND_FILE && matches && (o->exact == 0 || o->exact == level)) {
    return shard_intake_add_entry(w->hand, path, base + length, d->ino, type);
  }
  int rc = o->attributes ? shard_intake_add_other(w->hand, path, base + length, d->ino, type) : 0;
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
  return push_directory(w, path, base + length, level + 1, NULL, 0);
}

/* Whether the clock of a server gives the directory's times. */
static bool has_far_clock(int fd) {
  struct statfs fs;
  return fstatfs(fd, &fs) != 0 || shard_filesystem_network((unsigned)fs.f_type);
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

/* ---- parts of a directory ---- */

static void release_split(struct tree *t, struct split *split) {
  pthread_mutex_lock(&t->mutex);
  bool last = --split->users == 0;
  pthread_mutex_unlock(&t->mutex);
  if (last) {
    free(split);
  }
}

/* Split the directory into parts if that may be worth it. The caller reads the first; any thread
 * may read the others. NULL: read it whole. */
static struct split *split_directory(struct walker *w, int fd, const struct stat *before,
                                     const struct pending_directory *dir) {
  struct statfs fs;
  static const int64_t step = INT64_MAX / PARTS + 1;
  if (!w->tree->in_parts || before->st_size < SPLIT_LEAST || fstatfs(fd, &fs) != 0 ||
      fs.f_type != EXT4_SUPER_MAGIC || lseek(fd, step, SEEK_SET) != step ||
      lseek(fd, 0, SEEK_SET) != 0) {
    return NULL; /* a directory without an index refuses such positions */
  }
  struct split *split = calloc(1, sizeof(*split));
  if (!split) {
    return NULL;
  }
  split->before = *before;
  split->left = split->users = PARTS;
  split->parts[0].state = PART_BEGUN;
  for (size_t k = 1; k < PARTS; k++) {
    split->parts[k].from = (int64_t)k * step;
  }
  for (size_t k = PARTS - 1; k > 0; k--) {
    if (push_directory(w, dir->path, strlen(dir->path), dir->level, split, k) != 0) {
      pthread_mutex_lock(&w->tree->mutex);
      split->users--; /* the reader of the part before will go on into it */
      pthread_mutex_unlock(&w->tree->mutex);
    }
  }
  return split;
}

static void set_state(struct tree *t, struct split_part *part, enum part_state state) {
  pthread_mutex_lock(&t->mutex);
  part->state = state;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->mutex);
}

/* Wait until the part's first entry is known. Returns its state; an OPEN part is then GONE: the
 * caller reads it. */
static enum part_state await_state(struct tree *t, struct split_part *part) {
  pthread_mutex_lock(&t->mutex);
  while (part->state == PART_BEGUN) {
    pthread_cond_wait(&t->changed, &t->mutex);
  }
  enum part_state state = part->state;
  if (state == PART_OPEN) {
    part->state = PART_GONE;
  }
  pthread_mutex_unlock(&t->mutex);
  return state;
}

static bool same_entry(const struct split_part *part, const struct dirent_raw *d) {
  return part->ino == d->ino && part->off == d->off && part->type == d->type &&
         strcmp(part->name, d->name) == 0;
}

static int fail_to_meet(struct walker *w, const char *path) {
  return fail(w, -EAGAIN, "the parts of directory '%.300s' did not meet", *path ? path : ".");
}

/* Where a thread is in a directory. */
struct part_reader {
  struct split *split; /* NULL: it reads all of it */
  size_t part, next;   /* the part it began with; the next that it has not come to */
  int64_t at;          /* the position of the entry at hand */
};

/* Publish the first entry of the reader's part; NULL: it has none. */
static void begin_part(struct tree *t, struct part_reader *r, const struct dirent_raw *d) {
  struct split_part *part = &r->split->parts[r->part];
  if (part->state == PART_BEGUN) { /* no other thread changes this state */
    if (d) {
      part->ino = d->ino;
      part->off = d->off;
      part->type = d->type;
      snprintf(part->name, sizeof(part->name), "%s", d->name);
    }
    set_state(t, part, d ? PART_MET : PART_ENDED);
  }
}

/*
 * Before entry d, or the end (NULL), is taken: does it belong to the next part? 1: the next part
 * begins here, so stop. 0: take it. Or a negative errno.
 */
static int meet_next_part(struct walker *w, struct part_reader *r, const struct dirent_raw *d,
                          const char *path) {
  struct split_part *parts = r->split->parts;
  begin_part(w->tree, r, d);
  while (r->next < PARTS && (!d || r->at >= parts[r->next].from)) {
    enum part_state state = await_state(w->tree, &parts[r->next]);
    if (state == PART_MET && d && same_entry(&parts[r->next], d)) {
      return 1;
    }
    if (state == PART_ENDED && !d) {
      return 1;
    }
    if (state == PART_GONE) {
      return 1; /* the part's reader has failed, and so will the walk */
    }
    if (state != PART_OPEN) {
      return fail_to_meet(w, path);
    }
    r->next++;
  }
  if (d && d->off < r->at) {
    return fail_to_meet(w, path);
  }
  return 0;
}

/* Read entries to the end, or to the next part. */
static int read_entries(struct walker *w, int fd, struct part_reader *r, const char *path,
                        size_t base, uint32_t level) {
  for (;;) {
    long n = syscall(SYS_getdents64, fd, w->dents, DENTS_SIZE);
    if (n < 0) {
      bool gone = base && errno == ENOENT; /* removed since it was opened */
      return fail(w, gone ? -EAGAIN : -errno, "cannot read directory '%.300s': %s%s",
                  *path ? path : ".", strerror(errno), gone ? "; the tree is changing" : "");
    }
    if (n == 0) {
      int rc = r->split ? meet_next_part(w, r, NULL, path) : 0;
      return rc < 0 ? rc : 0;
    }
    for (long at = 0; at < n;) {
      const struct dirent_raw *d = (const struct dirent_raw *)(w->dents + at);
      at += d->reclen;
      int rc = 0;
      if (r->split) {
        rc = meet_next_part(w, r, d, path);
        if (rc != 0) {
          return rc < 0 ? rc : 0;
        }
        r->at = d->off;
      }
      rc = take_entry(w, fd, d, base, level);
      if (rc != 0) {
        return rc;
      }
    }
  }
}

/* Claim the part to be read. false if the reader of the part before has gone on into it. */
static bool claim_part(struct tree *t, struct part_reader *r) {
  struct split_part *part = &r->split->parts[r->part];
  r->at = part->from;
  pthread_mutex_lock(&t->mutex);
  bool ours = part->state == PART_OPEN;
  part->state = ours ? PART_BEGUN : part->state;
  pthread_mutex_unlock(&t->mutex);
  return ours;
}

/* End a part: rc says how reading it went. Whether it was the directory's last one to be read. */
static bool end_part(struct tree *t, const struct part_reader *r, int rc) {
  if (rc != 0) {
    set_state(t, &r->split->parts[r->part], PART_GONE); /* no one shall wait for it */
  }
  pthread_mutex_lock(&t->mutex);
  r->split->left -= r->next - r->part;
  bool last = r->split->left == 0;
  pthread_mutex_unlock(&t->mutex);
  return last;
}

/* ---- a directory ---- */

static int fail_to_open(struct walker *w, const char *path) {
  /* The directory was there a moment ago. */
  bool changing = *path && (errno == ENOENT || errno == ENOTDIR);
  return fail(w, changing ? -EAGAIN : -errno, "cannot open directory '%.300s': %s%s",
              *path ? path : ".", strerror(errno),
              changing          ? "; the tree is changing"
              : errno == EACCES ? "; make it readable"
                                : "");
}

/* Go to where the part begins. A whole directory: wait until it is old enough, maybe split it. */
static int begin_directory(struct walker *w, int fd, struct part_reader *r,
                           const struct pending_directory *dir, struct stat *before) {
  if (fstat(fd, before) != 0) {
    return fail(w, -errno, "fstat: %s", strerror(errno));
  }
  if (r->split) {
    const struct stat *whole = &r->split->before;
    bool same = before->st_dev == whole->st_dev && before->st_ino == whole->st_ino &&
                lseek(fd, r->at, SEEK_SET) == r->at;
    *before = *whole;
    return same ? 0 : fail_to_meet(w, dir->path);
  }
  wait_a_tick(fd, before);
  r->split = split_directory(w, fd, before, dir);
  return 0;
}

/* All of the directory was read: report it, unless it has changed since `before`. */
static int end_directory(struct walker *w, int fd, const char *path, const struct stat *before) {
  struct shard_dir after;
  if (shard_identity_look(&w->eye, fd, "", &after) != 0) {
    return fail(w, -errno, "stat of directory '%.300s': %s", *path ? path : ".", strerror(errno));
  }
  if (after.ctime_sec != before->st_ctim.tv_sec || after.ctime_nsec != before->st_ctim.tv_nsec ||
      after.mtime_sec != before->st_mtim.tv_sec || after.mtime_nsec != before->st_mtim.tv_nsec) {
    return fail(w, -EAGAIN, "directory '%.300s' changed while it was listed", *path ? path : ".");
  }
  return shard_intake_add_directory(w->hand, &after, path);
}

static int compare_directories(const void *pa, const void *pb) {
  const struct pending_directory *const *a = pa, *const *b = pb;
  return strcmp((*a)->path, (*b)->path);
}

/* Put the pending directories into the order of their names. */
static int sort_pending(struct walker *w) {
  struct tree *t = w->tree;
  size_t count = 0;
  for (const struct pending_directory *d = t->pending; d; d = d->next) {
    count++;
  }
  struct pending_directory **all =
      count ? malloc(count * sizeof(struct pending_directory *)) : NULL;
  if (!all) {
    return count ? fail(w, -ENOMEM, "out of memory") : 0;
  }
  for (size_t i = 0; i < count; i++) {
    all[i] = t->pending;
    t->pending = t->pending->next;
  }
  qsort(all, count, sizeof(struct pending_directory *), compare_directories);
  for (size_t i = count; i > 0; i--) {
    all[i - 1]->next = t->pending;
    t->pending = all[i - 1];
  }
  free(all);
  return 0;
}

/*
 * With options->chunk: a folder's names come pattern by pattern, and folders in the order of their
 * names, as a program gets them that globs one after the other.
 */
static int read_by_patterns(struct walker *w, int fd, struct part_reader *r,
                            const struct pending_directory *dir, size_t base) {
  const struct shard_options *o = w->tree->intake->options;
  if (o->depth == 1 || dir->level == 1) {
    int rc = read_entries(w, fd, r, dir->path, base, dir->level);
    return rc == 0 ? sort_pending(w) : rc;
  }
  const char *pattern = o->include;
  int rc = 0;
  do {
    size_t n = shard_options_pattern(pattern);
    w->one = *o;
    memcpy(w->one.include, pattern, n);
    w->one.include[n] = 0;
    w->match = &w->one;
    rc = lseek(fd, 0, SEEK_SET) == 0 ? read_entries(w, fd, r, dir->path, base, dir->level)
                                     : fail(w, -errno, "lseek: %s", strerror(errno));
    pattern += n + (pattern[n] == ':');
  } while (rc == 0 && *pattern);
  w->match = o;
  return rc;
}

static int read_directory(struct walker *w, const struct pending_directory *dir) {
  struct tree *t = w->tree;
  size_t base = strlen(dir->path);
  struct part_reader r = {.split = dir->split, .part = dir->part, .next = dir->part + 1};
  struct stat before = {0};
  if (r.split && !claim_part(t, &r)) {
    release_split(t, r.split);
    return 0;
  }
  memcpy(w->path, dir->path, base);
  if (base) {
    w->path[base++] = '/';
  }
  int fd = shard_path_open(t->root, dir->path, O_RDONLY);
  int rc = fd < 0 ? fail_to_open(w, dir->path) : begin_directory(w, fd, &r, dir, &before);
  if (rc == 0) {
    rc = t->intake->options->chunk ? read_by_patterns(w, fd, &r, dir, base)
                                   : read_entries(w, fd, &r, dir->path, base, dir->level);
  }
  bool last = !r.split || end_part(t, &r, rc);
  if (rc == 0 && last) {
    rc = end_directory(w, fd, dir->path, &before);
  }
  if (r.split) {
    release_split(t, r.split);
  }
  shard_file_close(fd);
  return rc;
}

/* "": what the intake says tells more. */
static void tell(struct tree *t, const char *error) {
  if (*error) {
    snprintf(t->err, t->size, "'%.200s': %s", t->name, error);
  }
}

static void *walk_directories(void *context) {
  struct walker *w = context;
  struct tree *t = w->tree;
  pthread_mutex_lock(&t->mutex);
  for (;;) {
    while (!t->pending && t->busy > 0 && t->rc == 0) {
      pthread_cond_wait(&t->changed, &t->mutex);
    }
    struct pending_directory *dir = t->pending;
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
      tell(t, w->error);
    }
  }
  t->intake->dirs_hidden += w->dirs_hidden;
  t->intake->dir_links += w->dir_links;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->mutex);
  return NULL;
}

int shard_walk(const char *root, struct shard_intake *intake, size_t threads, bool in_parts,
               char *err, size_t size) {
  bool alone = threads < 2 || intake->options->chunk;
  struct tree t = {
      .name = root, .intake = intake, .in_parts = in_parts && !alone, .err = err, .size = size};
  struct walker *walks[SHARD_INTAKE_HANDS] = {NULL};
  pthread_t ids[SHARD_INTAKE_HANDS];
  size_t started = 1;
  intake->dirs_hidden = intake->dir_links = 0;
  pthread_mutex_init(&t.mutex, NULL);
  pthread_cond_init(&t.changed, NULL);
  threads = alone ? 1 : threads > SHARD_INTAKE_HANDS ? SHARD_INTAKE_HANDS : threads;
  for (size_t i = 0; i < threads && t.rc == 0; i++) {
    walks[i] = calloc(1, sizeof(*walks[i]));
    if (!walks[i] || !(walks[i]->dents = malloc(DENTS_SIZE))) {
      tell(&t, "out of memory");
      t.rc = -ENOMEM;
    } else {
      walks[i]->tree = &t;
      walks[i]->match = intake->options;
      walks[i]->hand = &intake->hands[i];
      walks[i]->eye.lazily = true; /* the caller looks once more */
    }
  }
  t.root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (t.rc == 0 && t.root < 0) {
    t.rc = shard_error_set(err, size, -errno, "cannot open directory '%.300s': %s", root,
                           strerror(errno));
  }
  if (t.rc == 0 && walks[0]) {
    t.rc = push_directory(walks[0], "", 0, 1, NULL, 0);
  }
  /* Fewer threads than wanted will do. */
  bool more = t.rc == 0, begun = more;
  while (more && started < threads) {
    more = pthread_create(&ids[started], NULL, walk_directories, walks[started]) == 0;
    started += more;
  }
  if (begun && walks[0]) {
    walk_directories(walks[0]);
  }
  for (size_t i = 1; i < started; i++) {
    pthread_join(ids[i], NULL);
  }
  while (t.pending) {
    struct pending_directory *dir = t.pending;
    t.pending = dir->next;
    if (dir->split) {
      release_split(&t, dir->split);
    }
    free(dir);
  }
  for (size_t i = 0; i < threads; i++) {
    if (walks[i]) {
      free(walks[i]->dents);
      free(walks[i]);
    }
  }
  shard_file_close(t.root);
  pthread_mutex_destroy(&t.mutex);
  pthread_cond_destroy(&t.changed);
  return t.rc;
}
