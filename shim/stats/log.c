/* SPDX-License-Identifier: MIT */
#include "stats/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/kernel.h"
#include "base/process.h"
#include "base/trust.h"
#include "base/workspace.h"
#include "config/config.h"

#define IN_SEGMENT (SHARD_LOG_SEGMENT / sizeof(struct shard_log_note))
#define IN_HEAD (SHARD_LOG_HEAD / sizeof(struct shard_log_note))
#define MOST_LOGS 10000   /* of one process: each program that it executes begins a log */
#define PATIENCE_MS 10000 /* how long to wait for a thread that makes a segment */

enum { EMPTY, FILLING, FILLED, FAILED };

/* This process's log: memory that a forked child finds wiped. The head is in the first segment. */
static struct process_log {
  atomic_int state[SHARD_LOG_SEGMENTS];
  _Atomic(void *) segment[SHARD_LOG_SEGMENTS];
  _Atomic uint64_t early; /* notes lost before there was a log */
} * own;

static const char *folder;
/* The head of the latest log of this process or its parent: a child without a log counts there. */
static _Atomic(struct shard_log_head *) latest_head;

bool shard_log_init(const char *directory) {
  void *memory = mmap(NULL, sizeof(struct process_log), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || madvise(memory, sizeof(struct process_log), MADV_WIPEONFORK) != 0) {
    return false;
  }
  folder = directory;
  own = memory;
  return true;
}

static struct shard_log_head *head(void) { return atomic_load(&own->segment[0]); }

/* ---- the file ----------------------------------------------------------- */

/* Write a segment of zeros at `at`, so that no store into its mapping fails. Returns 0 or an errno.
 */
static int reserve(int fd, off_t at) {
  static char zeros[SHARD_LOG_SEGMENT];
  size_t done = 0;
  if (!shard_file_size_allowed((uint64_t)at + SHARD_LOG_SEGMENT)) {
    return EFBIG;
  }
  while (done < sizeof(zeros)) {
    errno = 0;
    long n = syscall(SYS_pwrite64, fd, zeros + done, sizeof(zeros) - done, at + (off_t)done);
    if (n <= 0 && errno != EINTR) {
      return errno ? errno : ENOSPC;
    }
    done += n > 0 ? (size_t)n : 0;
  }
  return 0;
}

static bool make_path(const char *name, char *path) {
  return path && snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

/* Open this process's log again. Returns a descriptor; -1: the name leads to another file. */
static int reopen(void) {
  struct shard_log_head found;
  struct stat st;
  SHARD_WORKSPACE(path);
  size_t size = offsetof(struct shard_log_head, ended);
  int fd = make_path(head()->name, path)
               ? shard_kernel_open(AT_FDCWD, path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
               : -1;
  if (fd >= 0 &&
      (shard_kernel_fstat(fd, &st) != 0 || shard_trust_check(&st, NULL) != SHARD_TRUST_OK ||
       syscall(SYS_pread64, fd, &found, size, 0) != (long)size ||
       memcmp(&found, head(), size) != 0)) {
    shard_kernel_close(fd);
    fd = -1;
  }
  return fd;
}

static void fill(struct shard_log_head *h) {
  struct utsname system;
  struct shard_world world;
  struct stat st;
  struct shard_process process;
  char ignored[1];
  int rc = shard_world_get(&world, ignored, sizeof(ignored));
  h->magic = SHARD_LOG_MAGIC;
  h->pid = getpid();
  h->start = shard_process_read(h->pid, &process) ? process.start : 0;
  h->namespace = shard_kernel_stat(AT_FDCWD, "/proc/self/ns/pid", &st, 0) == 0 ? st.st_ino : 0;
  h->begun = shard_clock_real_ns() / 1000000;
  h->rank = rc == 0 ? world.rank : -1;
  h->size = rc == 0 ? world.size : -1;
  snprintf(h->host, sizeof(h->host), "%s", uname(&system) == 0 ? system.nodename : "unknown");
  snprintf(h->launcher, sizeof(h->launcher), "%s", rc == 0 ? world.launcher : "");
  snprintf(h->version, sizeof(h->version), "%s", shard_version());
  for (char *p = h->host; *p; p++) {
    *p = *p == '/' ? '_' : *p;
  }
}

/* Create a file with a new name. Returns a descriptor, or a negative errno. */
static int create(struct shard_log_head *h) {
  SHARD_WORKSPACE(path);
  if (mkdir(folder, 0777) != 0 && errno != EEXIST && errno != EROFS) {
    return -errno;
  }
  for (unsigned n = 0; n < MOST_LOGS; n++) {
    char again[16] = "";
    if (n > 0) {
      snprintf(again, sizeof(again), "-%u", n);
    }
    snprintf(h->name, sizeof(h->name), "%s.%" PRId64 ".%" PRIu64 "%s.log", h->host, h->pid,
             h->start, again);
    if (!make_path(h->name, path)) {
      return -ENAMETOOLONG;
    }
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path,
                          O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) {
      return fd >= 0 ? fd : -errno;
    }
  }
  return -EEXIST;
}

/* Create the log, or open it again for segment k. Returns a descriptor, or a negative errno. */
static int open_log(size_t k, struct shard_log_head *h) {
  if (k > 0) {
    int fd = reopen();
    return fd < 0 ? -ENOENT : fd;
  }
  fill(h);
  return create(h);
}

/* Write and map segment k; the first one creates the log. Returns 0 or an errno. If the first one
 * fails, the file stays, and verify names it: the process's opens are missing. */
static int make(size_t k, void **out) {
  struct shard_log_head h = {0};
  off_t at = (off_t)k * SHARD_LOG_SEGMENT;
  int fd = open_log(k, &h), rc = fd < 0 ? -fd : reserve(fd, at);
  if (rc == 0 && k == 0 &&
      (syscall(SYS_pwrite64, fd, &h, sizeof(h), 0) != (long)sizeof(h) ||
       syscall(SYS_fsync, fd) != 0)) {
    rc = errno;
  }
  *out = rc == 0 ? mmap(NULL, SHARD_LOG_SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at) : NULL;
  if (*out == MAP_FAILED) {
    rc = errno;
    *out = NULL;
  }
  shard_kernel_close(fd);
  if (rc == 0 && k == 0) {
    atomic_store(&latest_head, *out);
    atomic_store(&((struct shard_log_head *)*out)->lost, atomic_exchange(&own->early, 0));
  }
  return rc;
}

/* Print that there is no log: once in a process and its children, and on a node's first rank only.
 */
static void complain(int rc) {
  static atomic_bool said;
  struct shard_world world;
  char ignored[1];
  if (!atomic_exchange(&said, true) &&
      (shard_world_get(&world, ignored, sizeof(ignored)) != 0 || world.local_rank <= 0)) {
    shard_say(SHARD_LOG_ERROR,
              "SHARD_STATS='%.900s': cannot write the log of process %ld there: %s; name a folder "
              "that can be written to (what this process opens is in no statistics)",
              folder, (long)getpid(), strerror(rc));
  }
}

/* Returns segment k, which is made if there is none; NULL: it cannot be made. */
static void *get_segment(size_t k) {
  void *segment = atomic_load_explicit(&own->segment[k], memory_order_acquire);
  int empty = EMPTY;
  if (segment) {
    return segment;
  }
  if (atomic_compare_exchange_strong(&own->state[k], &empty, FILLING)) {
    int rc = make(k, &segment);
    /* A shortage of descriptors or memory may have ended by the next call. */
    bool again = rc == EMFILE || rc == ENFILE || rc == ENOMEM || rc == EINTR;
    atomic_store(&own->segment[k], segment);
    atomic_store(&own->state[k], rc == 0 ? FILLED : again ? EMPTY : FAILED);
    if (rc != 0 && !again && k == 0) {
      complain(rc);
    }
    return segment;
  }
  for (int i = 0; i < PATIENCE_MS && atomic_load(&own->state[k]) == FILLING; i++) {
    syscall(SYS_nanosleep, &(struct timespec){0, 1000000}, NULL);
  }
  return atomic_load(&own->segment[k]);
}

/* ---- notes -------------------------------------------------------------- */

static struct shard_log_head *get_head(void) { return own ? get_segment(0) : NULL; }

uint64_t shard_log_number(void) {
  struct shard_log_head *h = own ? head() : NULL;
  return h ? (uint64_t)h->begun << 22 ^ (uint64_t)h->pid : 0;
}

void shard_log_lose(void) {
  struct shard_log_head *h = own && !head() ? atomic_load(&latest_head) : own ? head() : NULL;
  if (own) {
    atomic_fetch_add(h ? &h->lost : &own->early, 1);
  }
}

/* Store a note at a place that was taken; a place without a note counts as lost. */
static void store_note(uint64_t at, uint64_t hash, uint64_t what) {
  size_t k = (at + IN_HEAD) / IN_SEGMENT;
  struct shard_log_note *notes = k < SHARD_LOG_SEGMENTS ? get_segment(k) : NULL;
  if (notes) {
    notes += (at + IN_HEAD) % IN_SEGMENT;
    atomic_store_explicit(&notes->hash, hash, memory_order_relaxed);
    atomic_store_explicit(&notes->what, what, memory_order_release);
  }
}

void shard_log_note(uint64_t hash, uint64_t what) {
  struct shard_log_head *h = get_head();
  if (h) {
    store_note(atomic_fetch_add(&h->notes, 1), hash, what);
  } else {
    shard_log_lose();
  }
}

void shard_log_share(struct shard_log_share *share, size_t size, uint64_t what) {
  struct shard_log_head *h = get_head();
  size_t words = (size + 7) / 8;
  if (!h) {
    shard_log_lose();
    return;
  }
  uint64_t at = atomic_fetch_add(&h->notes, words + 1);
  uint64_t text = what + ((uint64_t)(SHARD_LOG_TEXT - SHARD_LOG_SHARE) << 16);
  share->previous = atomic_exchange(&h->shares, at + 1);
  store_note(at, words, what);
  for (size_t i = 0; i < words; i++) {
    uint64_t word = 0;
    memcpy(&word, (const char *)share + 8 * i, size - 8 * i < 8 ? size - 8 * i : 8);
    store_note(at + 1 + i, word, text);
  }
}

void shard_log_set_rank(uint32_t rank, uint32_t size) {
  struct shard_log_head *h = get_head();
  if (h) {
    atomic_store(&h->rank, (int32_t)rank);
    atomic_store(&h->size, (int32_t)size);
  }
}

void shard_log_set_job(uint64_t job) {
  struct shard_log_head *h = get_head();
  if (h) {
    atomic_store(&h->job, job);
  }
}

void shard_log_end(void) {
  struct shard_log_head *h = !own ? NULL : atomic_load(&own->early) > 0 ? get_segment(0) : head();
  if (h && h->pid == getpid()) { /* in a vforked child the log is the parent's */
    atomic_store(&h->ended, shard_clock_real_ns() / 1000000);
  }
}
