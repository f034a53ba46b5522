/* SPDX-License-Identifier: MIT */
#include "stats/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/whole.h"
#include "base/xxh64.h"
#include "config/config.h"
#include "config/dataset.h"
#include "config/launcher.h"
#include "config/pattern.h"
#include "host/builder.h"
#include "host/climb.h"
#include "host/self.h"
#include "libshard.h"
#include "stats/log.h"

#define MARK "LIBSHARD_STATS"

atomic_int shard_stats_state;

static struct shard_log_head *head; /* the log's first segment */
static char log_path[PATH_MAX + 16];
static _Atomic(struct shard_log_note *) segments[SHARD_LOG_SEGMENTS];
static char program[PATH_MAX]; /* shardctl */

/* The epoch that this process itself reads names for, if it does. */
static struct {
  _Atomic int64_t pid;
  _Atomic uint64_t epoch, told; /* told: the epoch whose list was, and one more */
} own[SHARD_LOG_DATASETS];

/* ---- files, by the kernel's calls: no wrapper, no cancellation point --------------------------
 */

static int sys_open(const char *path, int flags, int mode) {
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

static void sys_close(int fd) { syscall(SYS_close, fd); }

/* Space of a file, so that storing into its mapping cannot fail. 0 or an errno. */
static int reserve(int fd, off_t at, off_t size) {
  if (syscall(SYS_fallocate, fd, 0, at, size) == 0) {
    return 0;
  }
  if (errno != EOPNOTSUPP && errno != ENOSYS) {
    return errno;
  }
  static const char zero[4096];
  for (off_t end = at + size; at < end; at += (off_t)sizeof(zero)) {
    if (syscall(SYS_pwrite64, fd, zero, sizeof(zero), at) != (long)sizeof(zero)) {
      return errno ? errno : ENOSPC;
    }
  }
  return 0;
}

/* The log, if its name still leads to it; else -1. */
static int reopen(void) {
  uint64_t found[2] = {0};
  int fd = sys_open(log_path, O_RDWR, 0);
  if (fd >= 0 && (syscall(SYS_pread64, fd, found, sizeof(found), 0) != (long)sizeof(found) ||
                  found[0] != head->magic || found[1] != head->nonce)) {
    sys_close(fd);
    fd = -1;
  }
  return fd;
}

/* Space and a mapping of the k-th segment; NULL if there is none to be had. */
static struct shard_log_note *map_segment(uint64_t k) {
  uint8_t none = SHARD_LOG_NONE;
  int fd = reopen();
  if (fd < 0) {
    return NULL;
  }
  off_t at = (off_t)((k + 1) * SHARD_LOG_SEGMENT);
  if (atomic_compare_exchange_strong(&head->space[k], &none, SHARD_LOG_RESERVING)) {
    int rc = reserve(fd, at, SHARD_LOG_SEGMENT);
    atomic_store(&head->space[k], rc == 0 ? SHARD_LOG_READY : SHARD_LOG_FAILED);
  }
  /* Whoever reserves may have been killed: then these notes are lost. */
  for (int i = 0; i < 1000 && atomic_load(&head->space[k]) == SHARD_LOG_RESERVING; i++) {
    syscall(SYS_nanosleep, &(struct timespec){0, 1000000}, NULL);
  }
  void *new = MAP_FAILED;
  if (atomic_load(&head->space[k]) == SHARD_LOG_READY) {
    new = mmap(NULL, SHARD_LOG_SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
  }
  sys_close(fd);
  if (new == MAP_FAILED) {
    return NULL;
  }
  struct shard_log_note *before = NULL;
  if (!atomic_compare_exchange_strong(&segments[k], &before, (struct shard_log_note *)new)) {
    munmap(new, SHARD_LOG_SEGMENT);
    return before;
  }
  return new;
}

static void note_at(uint64_t at, uint64_t hash, uint64_t what) {
  uint64_t k = at / SHARD_LOG_NOTES;
  struct shard_log_note *segment = k < SHARD_LOG_SEGMENTS ? atomic_load(&segments[k]) : NULL;
  if (!segment && k < SHARD_LOG_SEGMENTS) {
    segment = map_segment(k);
  }
  if (!segment) {
    atomic_fetch_add(&head->lost, 1);
    return;
  }
  atomic_store_explicit(&segment[at % SHARD_LOG_NOTES].hash, hash, memory_order_relaxed);
  atomic_store_explicit(&segment[at % SHARD_LOG_NOTES].what, what, memory_order_release);
}

static void note(uint64_t hash, uint64_t what) {
  note_at(atomic_fetch_add(&head->notes, 1), hash, what);
}

/* ---- datasets ---------------------------------------------------------------------------------
 */

static struct shard_log_dataset *slot(uint32_t i) {
  return (struct shard_log_dataset *)((char *)head + SHARD_LOG_HEAD + (size_t)i * SHARD_LOG_SLOT);
}

static uint32_t slots(void) {
  uint32_t n = atomic_load(&head->datasets);
  return n < SHARD_LOG_DATASETS ? n : SHARD_LOG_DATASETS;
}

static bool ready(uint32_t i) { return atomic_load(&slot(i)->state) == SHARD_LOG_READY; }

/* Canonical path of an open file into buf[PATH_MAX]; its length, 0 if it has none. */
static size_t path_of(int fd, char *buf) {
  char link[40];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  long n = syscall(SYS_readlinkat, AT_FDCWD, link, buf, PATH_MAX);
  if (n <= 0 || n >= PATH_MAX || buf[0] != '/') {
    return 0;
  }
  buf[n] = 0;
  return (size_t)n;
}

/* Number of the dataset, which is new if need be. -1: there is none, or too many. */
static int dataset(const char *path, bool of_program, const struct shard_options *options,
                   uint64_t first) {
  char root[PATH_MAX];
  struct statx st;
  int fd = sys_open(path, O_PATH | O_DIRECTORY, 0);
  size_t n = fd < 0 ? 0 : path_of(fd, root);
  bool good = n > 0 && shard_climb_stat(fd, "", &st) == 0;
  if (fd >= 0) {
    sys_close(fd);
  }
  if (!good) {
    return -1;
  }
  uint64_t id = shard_xxh64(root, n, 0);
  for (uint32_t i = 0; i < slots(); i++) {
    if (ready(i) && slot(i)->id == id && slot(i)->program == of_program) {
      return (int)i;
    }
  }
  uint32_t i = atomic_fetch_add(&head->datasets, 1);
  if (i >= SHARD_LOG_DATASETS) {
    atomic_fetch_add(&head->lost, 1);
    return -1;
  }
  struct shard_log_dataset *d = slot(i);
  d->program = of_program;
  d->id = id;
  d->first = first;
  atomic_store(&d->dev, shard_climb_device(&st));
  atomic_store(&d->ino, st.stx_ino);
  atomic_store(&d->epoch, first);
  atomic_store(&d->last, first);
  d->options = *options;
  memcpy(d->root, root, n + 1);
  atomic_store(&d->state, SHARD_LOG_READY);
  atomic_fetch_add(&head->generation, 1);
  return (int)i;
}

void shard_stats_view(enum shard_view view) {
  if (shard_stats_on()) {
    atomic_store(&head->view, view);
  }
}

int shard_stats_root(const char *path) {
  if (!shard_stats_on()) {
    return -1;
  }
  const struct shard_config *config = shard_config();
  struct shard_options options = {.hidden = true};
  int saved = errno;
  if (config->include && !(config->listing && shard_manifest_named(config->listing))) {
    snprintf(options.include, sizeof(options.include), "%s", config->include);
  }
  int found = dataset(path, false, &options, config->epoch);
  errno = saved;
  return found;
}

static atomic_bool all_there; /* every root of SHARD_DATASET has been seen */

/* All of SHARD_DATASET that is there by now. */
__attribute__((noinline)) static void look_for_roots(void) {
  char path[PATH_MAX];
  bool missing = false;
  struct shard_dataset_item item;
  for (const char *p = shard_config()->dataset; p && (p = shard_dataset_next(p, &item));) {
    if (item.path_length < sizeof(path)) { /* without the bucket that it stands for */
      memcpy(path, item.path, item.path_length);
      path[item.path_length] = 0;
      missing |= shard_stats_root(path) < 0;
    }
  }
  atomic_store(&all_there, !missing);
}

/* Another process, or thread, is about to fill something in. false: it was killed at it. */
static bool await(_Atomic uint32_t *state) {
  for (int i = 0; i < 1000 && atomic_load(state) == SHARD_LOG_RESERVING; i++) {
    syscall(SYS_nanosleep, &(struct timespec){0, 1000000}, NULL);
  }
  return atomic_load(state) == SHARD_LOG_READY;
}

/* Which run this is. */
static void tell_job(void) {
  char job[SHARD_LAUNCHER_JOB_SIZE];
  head->job = shard_launcher_job(job, sizeof(job)) ? shard_xxh64(job, strlen(job), 0) : 0;
}

/* How names are shared out: the main process may have been a script that has set it since. */
static void tell_settings(struct shard_log_dataset *d, bool shuffled) {
  const struct shard_config *config = shard_config();
  uint32_t none = SHARD_LOG_NONE;
  uint64_t seed = shuffled ? config->seed : 0;
  if (atomic_compare_exchange_strong(&head->settled, &none, SHARD_LOG_RESERVING)) {
    head->strategy = config->strategy;
    head->shuffled = shuffled;
    head->seed = seed;
    tell_job();
    atomic_store(&head->view, SHARD_VIEW_SHARD);
    atomic_store(&head->settled, SHARD_LOG_READY);
  } else if (await(&head->settled) && (head->strategy != (uint32_t)config->strategy ||
                                       head->shuffled != shuffled || head->seed != seed)) {
    atomic_store(&d->mixed, 1);
  }
}

static void tell_listing(struct shard_log_dataset *d, const struct shard_listing *listing,
                         uint64_t entries, uint64_t used) {
  struct shard_listing_info info;
  uint32_t none = SHARD_LOG_NONE;
  shard_listing_info(listing, &info);
  if (atomic_compare_exchange_strong(&d->listed, &none, SHARD_LOG_RESERVING)) {
    atomic_store(&d->entries, entries);
    atomic_store(&d->used, used);
    memcpy(d->digest, info.digest, sizeof(d->digest));
    int fd = sys_open(info.file, O_PATH, 0); /* it may be a relative path */
    if (fd >= 0) {
      path_of(fd, d->listing);
      sys_close(fd);
    }
    atomic_store(&d->listed, SHARD_LOG_READY);
  } else if (await(&d->listed) && memcmp(d->digest, info.digest, sizeof(d->digest)) != 0) {
    atomic_store(&d->mixed, 1);
  }
}

void shard_stats_listing(int i, const struct shard_listing *listing, uint64_t entries) {
  if (i >= 0 && shard_stats_on()) {
    struct shard_log_dataset *d = slot((uint32_t)i);
    if (atomic_load(&d->lists) != SHARD_LOG_ONE) {
      atomic_store(&d->mixed, 1);
    }
    tell_listing(d, listing, entries, entries);
  }
}

static void begin_epoch(struct shard_log_dataset *d, uint64_t epoch) {
  uint64_t last = atomic_load(&d->last);
  atomic_store(&d->epoch, epoch);
  while (last < epoch && !atomic_compare_exchange_weak(&d->last, &last, epoch)) {
  }
}

/* What a note tells of an epoch; 0, and one more is lost, if it lies too far from the first. */
static uint64_t what(int i, uint64_t epoch, enum shard_log_kind kind) {
  uint64_t after = epoch - slot((uint32_t)i)->first; /* or before it */
  if (after >= SHARD_LOG_EPOCHS) {
    atomic_fetch_add(&head->lost, 1);
    return 0;
  }
  return shard_log_what(after, (unsigned)i, kind);
}

void shard_stats_pass(int i, uint64_t epoch, bool shuffled) {
  if (i < 0 || !shard_stats_on()) {
    return;
  }
  struct shard_log_dataset *d = slot((uint32_t)i);
  pid_t pid = getpid();
  tell_settings(d, shuffled);
  if (atomic_load(&own[i].pid) == pid && atomic_load(&own[i].epoch) == epoch) {
    return;
  }
  uint64_t passed = what(i, epoch, SHARD_LOG_PASSED);
  if (passed) {
    begin_epoch(d, epoch);
    note(0, passed);
  }
  atomic_store(&own[i].told, 0);
  atomic_store(&own[i].epoch, epoch);
  atomic_store(&own[i].pid, pid);
}

void shard_stats_list(int i, uint64_t epoch, const struct shard_listing *listing, bool of_rank) {
  uint64_t text = i >= 0 && shard_stats_on() ? what(i, epoch, SHARD_LOG_TEXT) : 0;
  if (!text || atomic_exchange(&own[i].told, epoch + 1) == epoch + 1) {
    return;
  }
  struct shard_log_list list;
  struct shard_listing_info info;
  shard_listing_info(listing, &info);
  memset(&list, 0, sizeof(list));
  list.entries = info.entries;
  memcpy(list.digest, info.digest, sizeof(list.digest));
  int fd = sys_open(info.file, O_PATH, 0); /* it may be a relative path */
  size_t n = fd >= 0 ? path_of(fd, list.listing) : 0;
  if (fd >= 0) {
    sys_close(fd);
  }
  size_t words = (offsetof(struct shard_log_list, listing) + n) / 8 + 1; /* with the NUL */
  struct shard_log_dataset *d = slot((uint32_t)i);
  uint32_t lists = of_rank ? SHARD_LOG_RANKS : SHARD_LOG_BY_EPOCH, before = SHARD_LOG_ONE;
  if ((!atomic_compare_exchange_strong(&d->lists, &before, lists) && before != lists) ||
      atomic_load(&d->listed) != SHARD_LOG_NONE) {
    atomic_store(&d->mixed, 1);
  }
  uint64_t at = atomic_fetch_add(&head->notes, words + 1);
  note_at(at, words, what(i, epoch, SHARD_LOG_LIST));
  for (size_t k = 0; k < words; k++) {
    uint64_t word;
    memcpy(&word, (const char *)&list + 8 * k, sizeof(word));
    note_at(at + 1 + k, word, text);
  }
}

void shard_stats_served(int i, uint64_t epoch, const char *name, size_t length) {
  uint64_t served = i >= 0 && shard_stats_on() ? what(i, epoch, SHARD_LOG_SERVED) : 0;
  if (served) {
    note(shard_xxh64(name, length, 0), served);
  }
}

/* ---- which dataset a directory is of ------------------------------------------------------------
 *
 * By going up from it (host/climb.h). What was found is kept for some directories; an entry is used
 * and changed by whoever gets hold of it, and left alone by everybody else.
 */

/* A directory as it was reached: one that is mounted elsewhere may have another path there. */
struct place {
  uint64_t dev, ino, mount, generation;
  int dataset;   /* -1: none */
  uint32_t base; /* bytes of its path from the root, with a slash at the end; "" for the root */
};

#define KEPT 64
static struct kept {
  atomic_flag held;
  struct place place;
  char path[456];
} kept_places[KEPT];

/* The roots of the datasets, the last one first: a later one is of the program's own. */
struct roots {
  struct shard_climb_root roots[SHARD_LOG_DATASETS];
  uint32_t count;
};

static void copy_roots(struct roots *out) {
  out->count = slots();
  for (uint32_t i = 0; i < out->count; i++) {
    struct shard_climb_root *root = &out->roots[out->count - 1 - i];
    *root = (struct shard_climb_root){.path = slot(i)->root};
    if (ready(i)) {
      root->dev = atomic_load(&slot(i)->dev);
      root->ino = atomic_load(&slot(i)->ino);
    }
  }
}

/*
 * Look at the roots anew: one may be another directory by now, or there at last. Whether they have
 * changed since *generation, which is then the present one.
 */
static bool refresh_roots(struct roots *r, uint64_t *generation) {
  if (!atomic_load(&all_there)) {
    look_for_roots();
  }
  copy_roots(r);
  for (uint32_t i = 0; i < r->count; i++) {
    struct shard_climb_root *root = &r->roots[r->count - 1 - i], before = *root;
    if (ready(i) && shard_climb_look(root) &&
        (root->ino != before.ino || root->dev != before.dev)) {
      atomic_store(&slot(i)->dev, root->dev);
      atomic_store(&slot(i)->ino, root->ino);
      atomic_fetch_add(&head->generation, 1);
    }
  }
  uint64_t known = *generation;
  *generation = atomic_load(&head->generation);
  return *generation != known;
}

/*
 * Go up from directory fd to a root. 1: *out tells which, and path[PATH_MAX] has the path from that
 * root to where the climb has ended: "", unless that is a mount of a part of the root's tree. 0:
 * there is none. A negative errno: it cannot be told.
 */
static int find_root(int fd, const struct statx *st, uint64_t *generation, struct roots *r,
                     struct shard_climb *out, char *path) {
  copy_roots(r);
  *path = 0;
  int rc = shard_climb_find(fd, st, r->roots, r->count, out);
  if (rc <= 0 && refresh_roots(r, generation)) {
    rc = shard_climb_find(fd, st, r->roots, r->count, out);
  }
  /* A mount inside a dataset has the names by which it is reached; so only if no root was met. */
  if (rc <= 0 && out->mount_count > 0) {
    int found = shard_climb_find_mounted(out, r->roots, r->count, path);
    rc = found != 0 ? found : rc;
  }
  /* Any other error is that of a directory that has just gone, or may not be entered. */
  return rc > 0 || shard_error_is_shortage(rc) ? rc : 0;
}

/* Add the last `levels` names of fd's path to path[PATH_MAX], used bytes; the new length or -1. */
__attribute__((noinline)) static ssize_t add_names(int fd, size_t levels, char *path, size_t used) {
  char names[PATH_MAX];
  ssize_t n = shard_climb_names(fd, levels, names, sizeof(names));
  bool apart = used > 0 && n > 0;
  if (n < 0 || used + apart + (size_t)n >= PATH_MAX) {
    return -1;
  }
  path[used] = '/';
  memcpy(path + used + apart, names, (size_t)n + 1);
  return (ssize_t)(used + apart) + n;
}

/*
 * Fill in out->dataset and base, and path[PATH_MAX + 1], for a directory of which *st is known.
 * false: it cannot be told, which is counted as lost.
 */
static bool locate(int dirfd, const char *directory, const struct statx *st, struct place *out,
                   char *path) {
  out->dataset = -1;
  int fd = (int)syscall(SYS_openat, dirfd, directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    /* Another fault is that of a directory that has just gone. */
    atomic_fetch_add(&head->lost, shard_error_is_shortage(errno));
    return false;
  }
  struct roots r;
  struct shard_climb climb;
  int rc = find_root(fd, st, &out->generation, &r, &climb, path);
  ssize_t n = 0;
  if (rc > 0) {
    n = *path ? add_names(fd, climb.levels, path, strlen(path))
              : shard_climb_names(fd, climb.levels, path, PATH_MAX);
  }
  sys_close(fd);
  if (rc < 0 || n < 0) { /* no descriptor is left, or there is no /proc */
    atomic_fetch_add(&head->lost, 1);
    return false;
  }
  if (rc > 0) {
    out->dataset = (int)(r.count - 1 - climb.which);
    if (n > 0) {
      path[n++] = '/';
    }
    out->base = (uint32_t)n;
  }
  return true;
}

/* Whether it is a name as the dataset has them. */
static bool belongs(const struct shard_log_dataset *d, const char *path, size_t base,
                    const char *name, size_t length) {
  const struct shard_options *o = &d->options;
  uint32_t level = 1;
  bool hidden = *name == '.';
  for (size_t i = 0; i < base; i++) {
    hidden |= path[i] == '.' && (i == 0 || path[i - 1] == '/');
    level += path[i] == '/';
  }
  return (o->depth == 0 || level <= o->depth) && (o->exact == 0 || level == o->exact) &&
         (o->hidden || !hidden) && shard_options_match(o, name, length);
}

/* path: of the directory, with room for the name behind it. */
static void note_file(int i, char *path, size_t base, const char *name, int fd) {
  struct shard_log_dataset *d = slot((uint32_t)i);
  struct stat st;
  size_t length = strlen(name);
  if (length > NAME_MAX || !belongs(d, path, base, name, length) || fstat(fd, &st) != 0 ||
      S_ISDIR(st.st_mode)) {
    return;
  }
  memcpy(path + base, name, length + 1);
  uint64_t epoch = atomic_load(&d->epoch);
  if (atomic_load(&own[i].pid) == getpid()) {
    epoch = atomic_load(&own[i].epoch);
  }
  uint64_t opened = what(i, epoch, SHARD_LOG_OPENED);
  if (opened) {
    note(shard_xxh64(path, base + length, 0), opened);
  }
}

/* The directory of `path`, in out[PATH_MAX], and its last name. NULL: it has none, or no room. */
static const char *split(const char *path, char *out) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  size_t n = slash ? (size_t)(slash - path) : 0;
  if (!*name || n >= PATH_MAX) {
    return NULL;
  }
  memcpy(out, path, n);
  out[n] = 0;
  if (n == 0) {
    strcpy(out, slash ? "/" : ".");
  }
  return name;
}

static void note_open(int fd, int dirfd, const char *opened) {
  char directory[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
  const char *name = split(opened, directory);
  struct statx st;
  if (!name || shard_climb_stat(dirfd, directory, &st) != 0) {
    return; /* a directory */
  }
  struct place p = {.dev = shard_climb_device(&st),
                    .ino = st.stx_ino,
                    .mount = st.stx_mnt_id,
                    .generation = atomic_load(&head->generation)};
  struct kept *kept =
      &kept_places[(p.ino * SHARD_XXH_PRIME1 ^ p.dev * SHARD_XXH_PRIME2) >> 32 & (KEPT - 1)];
  bool held = !atomic_flag_test_and_set(&kept->held);
  if (held && kept->place.ino == p.ino && kept->place.dev == p.dev &&
      kept->place.mount == p.mount && kept->place.generation == p.generation) {
    p = kept->place;
    if (p.dataset >= 0) {
      memcpy(path, kept->path, p.base);
    }
  } else {
    bool known = locate(dirfd, directory, &st, &p, path);
    if (held && known && (p.dataset < 0 || p.base < sizeof(kept->path))) {
      kept->place = p;
      if (p.dataset >= 0) {
        memcpy(kept->path, path, p.base);
      }
    }
  }
  if (held) {
    atomic_flag_clear(&kept->held);
  }
  if (p.dataset >= 0) {
    note_file(p.dataset, path, p.base, name, fd);
  }
}

void shard_stats_opened(int fd, int dirfd, const char *path, int flags) {
  if (flags & (O_PATH | O_DIRECTORY)) { /* O_TMPFILE has the latter */
    return;
  }
  int saved = errno;
  if (slots() > 0 || shard_config()->dataset) {
    note_open(fd, dirfd, path);
  }
  errno = saved;
}

/* ---- the main process, and those that join it -------------------------------------------------
 */

/* What the processes of one rank have, and no other rank of the job. */
static uint64_t identity(const struct shard_world *world) {
  const char *step = getenv("SLURM_STEP_ID"); /* a batch script has its first task's rank too */
  char text[100];
  int n = snprintf(text, sizeof(text), "%d %d %.40s", world->rank, world->size, step ? step : "");
  return shard_xxh64(text, (size_t)n, 0);
}

static uint64_t pid_namespace(void) {
  struct stat st;
  return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

static bool is_main(void) {
  return head && head->pid == getpid() && head->namespace_ino == pid_namespace();
}

/* Map an open log. */
static bool map_head(int fd) {
  void *memory = mmap(NULL, SHARD_LOG_SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  head = memory == MAP_FAILED ? NULL : memory;
  return head;
}

/*
 * Join the log that the mark names. `as` is this process's identity; another one's main process
 * was none: it is told that there is one below it. 0: a process without a rank, whose is its
 * parent's. false: this process is to be a main process.
 */
static bool join(const char *mark, uint64_t as) {
  char *end, *path;
  uint64_t found[2], of = strtoull(mark, &end, 16), nonce = strtoull(end, &path, 16);
  if (end == mark || path == end || *path != ' ' || strlen(++path) >= sizeof(log_path)) {
    return as == 0;
  }
  as = as ? as : of;
  strcpy(log_path, path);
  int fd = sys_open(log_path, O_RDWR, 0);
  bool right = fd >= 0 &&
               syscall(SYS_pread64, fd, found, sizeof(found), 0) == (long)sizeof(found) &&
               found[0] == SHARD_LOG_MAGIC && found[1] == nonce;
  if (!right) {
    if (fd >= 0) {
      sys_close(fd);
    }
    return of == as; /* the main process has ended: there is nothing to note any more */
  }
  bool mapped = map_head(fd);
  sys_close(fd);
  if (!mapped) {
    return of == as;
  }
  if (of != as) {
    atomic_store(&head->superseded, 1);
    munmap(head, SHARD_LOG_SEGMENT);
    head = NULL;
    return false;
  }
  atomic_store(&shard_stats_state, SHARD_STATS_ON);
  return true;
}

/* Put the mark into the environment, without allocating: bash has a setenv of its own. */
static bool mark_environment(uint64_t as, uint64_t nonce, const char *path) {
  static char mark[PATH_MAX + 80];
  static char *copy[8192];
  snprintf(mark, sizeof(mark), MARK "=%llx %llx %s", (unsigned long long)as,
           (unsigned long long)nonce, path);
  size_t n = 0;
  for (; environ && environ[n]; n++) {
    if (strncmp(environ[n], mark, sizeof(MARK)) == 0) {
      environ[n] = mark;
      return true;
    }
  }
  if (n + 2 > sizeof(copy) / sizeof(copy[0])) {
    return false;
  }
  if (n > 0) {
    memcpy(copy, environ, n * sizeof(copy[0]));
  }
  copy[n] = mark;
  copy[n + 1] = NULL;
  environ = copy;
  return true;
}

/* No statistics are kept; what this process starts need not try again. */
static void give_up(uint64_t as, const char *text) {
  atomic_store(&shard_stats_state, SHARD_STATS_OFF);
  mark_environment(as, 0, "-");
  if (text) {
    shard_log(SHARD_LOG_ERROR, text);
  }
}

static void fill_head(const struct shard_world *world, const char *target, uint64_t nonce) {
  const struct shard_config *config = shard_config();
  struct utsname system;
  head->nonce = nonce;
  head->pid = getpid();
  head->namespace_ino = pid_namespace();
  head->rank = world->rank;
  head->size = world->size;
  head->strategy = config->strategy;
  head->shuffled = config->shuffle;
  head->seed = config->seed;
  bool shown = config->dataset && !config->error[0] &&
               (config->view == SHARD_VIEW_AUTO || config->view == SHARD_VIEW_SHARD);
  atomic_store(&head->view, shown ? SHARD_VIEW_SHARD : SHARD_VIEW_OFF);
  snprintf(head->launcher, sizeof(head->launcher), "%s", world->launcher);
  snprintf(head->host, sizeof(head->host), "%s", uname(&system) == 0 ? system.nodename : "");
  snprintf(head->target, sizeof(head->target), "%s", target);
  head->magic = SHARD_LOG_MAGIC;
}

/* Make the log: it appears whole, in place of one that a killed run has left. 0 or an errno. */
static int make_log(const struct shard_world *world, const char *target) {
  struct shard_whole log;
  struct timespec now;
  struct stat st;
  if (lstat(target, &st) == 0 && !S_ISREG(st.st_mode)) {
    return S_ISDIR(st.st_mode) ? EISDIR : EEXIST; /* a device, say: it must not be replaced */
  }
  /* What an earlier run has left must not be taken for this one's, come what may. */
  if (unlink(target) != 0 && errno != ENOENT) {
    return errno;
  }
  snprintf(log_path, sizeof(log_path), "%s.log", target);
  int rc = -shard_whole_open(&log, log_path, SHARD_WHOLE_PRIVATE, SHARD_WHOLE_LAZY);
  if (rc != 0) {
    return rc;
  }
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t nonce = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec +
                   (uint64_t)getpid() * SHARD_XXH_PRIME1;
  rc = reserve(log.fd, 0, SHARD_LOG_SEGMENT);
  if (rc == 0 && !map_head(log.fd)) {
    rc = errno;
  }
  if (rc != 0) {
    shard_whole_abort(&log);
    return rc;
  }
  fill_head(world, target, nonce);
  return -shard_whole_publish(&log);
}

/* This is the rank's main process. */
static void begin(const struct shard_world *world) {
  static char target[PATH_MAX];
  char text[PATH_MAX + 200];
  const char *pattern = shard_config()->stats;
  bool good = shard_pattern_expand(pattern, (uint64_t)world->rank, 0, target,
                                   sizeof(target) - sizeof(".log.tmp.XXXXXX")) >= 0;
  int rc = good ? 0 : ENAMETOOLONG;
  if (good && shard_self_program("shardctl", program, sizeof(program)) != 0) {
    snprintf(text, sizeof(text),
             "SHARD_STATS needs shardctl in '%.900s', which is not there; no statistics are kept",
             program);
    give_up(identity(world), text);
    return;
  }
  if (rc == 0) {
    rc = make_log(world, target);
  }
  if (rc == 0 && !mark_environment(identity(world), head->nonce, log_path)) {
    rc = E2BIG;
    unlink(log_path);
  }
  if (rc != 0) {
    snprintf(
        text, sizeof(text),
        "SHARD_STATS='%.900s': cannot write '%.900s.log': %s; name a directory that exists and "
        "can be written to (no statistics are kept)",
        pattern, good ? target : "", strerror(rc));
    give_up(identity(world), text);
    return;
  }
  atomic_store(&shard_stats_state, SHARD_STATS_ON);
  if (atomic_load(&head->view) == SHARD_VIEW_SHARD) {
    look_for_roots();
  }
}

/* The rank's first process, or one that it has started. */
static void join_or_begin(const char *pattern) {
  struct shard_world world;
  char ignored[300];
  const char *mark = getenv(MARK);
  bool ranked = shard_world_get(&world, ignored, sizeof(ignored)) == 0;
  if (mark && join(mark, ranked ? identity(&world) : 0)) {
    if (shard_stats_on() && is_main()) { /* it has called exec */
      shard_self_program("shardctl", program, sizeof(program));
    }
  } else if (ranked && world.size > 1 && !shard_pattern_has(pattern, 'r')) {
    give_up(identity(&world), world.local_rank > 0
                                  ? NULL
                                  : "SHARD_STATS has no %r, so all ranks would write one file; add "
                                    "it, as in stats.%r.json (no statistics are kept)");
  } else if (ranked) { /* a launcher, and its shell, has none */
    begin(&world);
  }
}

void shard_stats_init(void) {
  int saved = errno;
  atomic_store(&shard_stats_state, SHARD_STATS_OFF);
  if (shard_config()->stats) {
    join_or_begin(shard_config()->stats);
  }
  errno = saved;
}

/* ---- a program that shards by itself -----------------------------------------------------------
 */

int shard_stats_dataset(const char *root, const struct shard_listing *listing, uint64_t used,
                        uint64_t epoch) {
  struct shard_listing_info info;
  struct shard_options options;
  char ignored[300];
  int saved = errno, rc = -ENOENT;
  if (!shard_stats_on() && shard_config()->stats && !getenv(MARK) &&
      shard_world_get(&(struct shard_world){0}, ignored, sizeof(ignored)) == -ENOENT) {
    begin(&(struct shard_world){.rank = 0, .size = 1, .local_rank = -1, .local_size = -1});
  }
  shard_listing_info(listing, &info);
  if (shard_stats_on() &&
      shard_options_parse(&options, info.options, ignored, sizeof(ignored)) == 0) {
    rc = dataset(root, true, &options, epoch);
  }
  if (rc >= 0) {
    uint32_t none = SHARD_LOG_NONE;
    if (atomic_compare_exchange_strong(&head->settled, &none, SHARD_LOG_RESERVING)) {
      tell_job();
      atomic_store(&head->settled, SHARD_LOG_READY);
    }
    shard_stats_view(SHARD_VIEW_GLOBAL);
    tell_listing(slot((uint32_t)rc), listing, info.entries, used);
    rc = 0;
  }
  errno = saved;
  return rc < 0 ? -ENOENT : 0;
}

void shard_stats_epoch(uint64_t epoch) {
  for (uint32_t i = 0; shard_stats_on() && i < slots(); i++) {
    if (ready(i) && slot(i)->program) {
      begin_epoch(slot(i), epoch);
    }
  }
}

/* ---- the end ------------------------------------------------------------------------------------
 */

void shard_stats_end(void) {
  if (!shard_stats_on() || !is_main() || atomic_exchange(&head->ended, 1)) {
    return;
  }
  int saved = errno;
  if (atomic_load(&head->superseded)) {
    unlink(log_path);
    errno = saved;
    return;
  }
  static char libraries[4096];
  char locale[] = "LC_ALL=C", *environment[] = {locale, NULL, NULL};
  char word[] = "stats", *arguments[] = {program, word, log_path, NULL};
  const char *path = getenv("LD_LIBRARY_PATH");
  if (path && (size_t)snprintf(libraries, sizeof(libraries), "LD_LIBRARY_PATH=%s", path) <
                  sizeof(libraries)) {
    environment[1] = libraries;
  }
  int rc = shard_builder_run(program, arguments, environment);
  if (rc != 0) {
    char text[PATH_MAX + 200];
    snprintf(text, sizeof(text), "cannot start '%.900s': %s; run shardctl stats '%.900s'", program,
             strerror(rc), log_path);
    shard_log(SHARD_LOG_ERROR, text);
  }
  errno = saved;
}
