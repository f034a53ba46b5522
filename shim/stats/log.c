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
#include "base/trust.h"
#include "base/workspace.h"
#include "config/config.h"

#define IN_SEGMENT (SHARD_LOG_SEGMENT / sizeof(struct shard_log_note))
#define IN_HEAD (SHARD_LOG_HEAD / sizeof(struct shard_log_note))
#define MOST_LOGS 10000   /* of one process, which has executed programs as often */
#define PATIENCE_MS 10000 /* for another thread, which writes a segment of zeros */

enum { EMPTY, FILLING, FILLED, FAILED };

/* What this process has: a forked child finds it empty. The head lies in the first segment. */
static struct own {
  atomic_int state[SHARD_LOG_SEGMENTS];
  _Atomic(void *) segment[SHARD_LOG_SEGMENTS];
  _Atomic uint64_t early; /* lost, while there is no log */
} * own;

static const char *folder;
/* The last log that this process or its parent has made, where a child tells what it has lost. */
static _Atomic(struct shard_log_head *) last;

bool shard_log_init(const char *directory) {
  void *memory = mmap(NULL, sizeof(struct own), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || madvise(memory, sizeof(struct own), MADV_WIPEONFORK) != 0) {
    return false;
  }
  folder = directory;
  own = memory;
  return true;
}

static struct shard_log_head *head(void) { return atomic_load(&own->segment[0]); }

/* ---- the file ----------------------------------------------------------- */

/* Write space at `at`, so that a store into its mapping cannot fail. 0 or an errno. */
static int reserve(int fd, off_t at) {
  static char zeros[SHARD_LOG_SEGMENT];
  size_t done = 0;
  if (!shard_file_may_have((uint64_t)at + SHARD_LOG_SEGMENT)) {
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

static void *map(int fd, off_t at) {
  void *memory = mmap(NULL, SHARD_LOG_SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
  return memory == MAP_FAILED ? NULL : memory;
}

static int make_path(const char *name, char *path) {
  return !path                                                        ? ENOMEM
         : snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX ? 0
                                                                      : ENAMETOOLONG;
}

/* Open this process's log once more. -1: its name leads elsewhere. */
static int reopen(void) {
  struct shard_log_head found;
  struct stat st;
  SHARD_WORKSPACE(path);
  size_t size = offsetof(struct shard_log_head, ended);
  int fd = make_path(head()->name, path) == 0
               ? shard_kernel_open(AT_FDCWD, path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
               : -1;
  if (fd >= 0 &&
      (shard_kernel_fstat(fd, &st) != 0 || shard_trust_judge(&st, NULL) != SHARD_TRUST_GOOD ||
       syscall(SYS_pread64, fd, &found, size, 0) != (long)size ||
       memcmp(&found, head(), size) != 0)) {
    shard_kernel_close(fd);
    fd = -1;
  }
  return fd;
}

/* When this process was started: clock ticks from boot; 0: not known. */
static uint64_t find_start(void) {
  SHARD_WORKSPACE(text);
  int fd = text ? shard_kernel_open(AT_FDCWD, "/proc/self/stat", O_RDONLY) : -1;
  long n = fd >= 0 ? syscall(SYS_read, fd, text, SHARD_WORKSPACE_SIZE - 1) : 0;
  shard_kernel_close(fd);
  char *p = n > 0 ? (text[n] = 0, strrchr(text, ')')) : NULL; /* a name before it may have any */
  for (int field = 2; p && field < 22; field++) {
    p = strchr(p + 1, ' ');
  }
  return p ? strtoull(p, NULL, 10) : 0;
}

static void fill(struct shard_log_head *h) {
  struct utsname system;
  struct shard_world world;
  struct stat st;
  char ignored[1];
  int rc = shard_world_get(&world, ignored, sizeof(ignored));
  h->magic = SHARD_LOG_MAGIC;
  h->pid = getpid();
  h->start = find_start();
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

/* Make a file of a name that nobody has. A descriptor, or a negative errno. */
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
    int rc = make_path(h->name, path);
    int fd = rc ? -1
                : (int)syscall(SYS_openat, AT_FDCWD, path,
                               O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 || rc != 0 || errno != EEXIST) {
      return fd >= 0 ? fd : rc ? -rc : -errno;
    }
  }
  return -EEXIST;
}

/* Make the log and map its first segment. 0 or an errno. */
static int make(void **out) {
  struct shard_log_head h = {0};
  fill(&h);
  int fd = create(&h);
  if (fd < 0) {
    return -fd;
  }
  int rc = reserve(fd, 0);
  if (rc == 0 && (syscall(SYS_pwrite64, fd, &h, sizeof(h), 0) != (long)sizeof(h) ||
                  syscall(SYS_fsync, fd) != 0)) {
    rc = errno;
  }
  *out = rc == 0 ? map(fd, 0) : NULL;
  rc = rc || *out ? rc : errno;
  shard_kernel_close(fd);
  if (rc != 0) { /* the file stays, and verify names it: what this process opens is missing */
    return rc;
  }
  atomic_store(&last, *out);
  atomic_store(&((struct shard_log_head *)*out)->lost, atomic_exchange(&own->early, 0));
  return 0;
}

static int extend(size_t k, void **out) {
  off_t at = (off_t)k * SHARD_LOG_SEGMENT;
  int fd = reopen(), rc = fd < 0 ? ENOENT : reserve(fd, at);
  *out = rc == 0 ? map(fd, at) : NULL;
  rc = rc || *out ? rc : errno;
  shard_kernel_close(fd);
  return rc;
}

/* Once in a process and those that it has forked, by a node's first rank. */
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

/* The k-th segment. NULL: there is none to be had. */
static void *have(size_t k) {
  void *segment = atomic_load_explicit(&own->segment[k], memory_order_acquire);
  int empty = EMPTY;
  if (segment) {
    return segment;
  }
  if (atomic_compare_exchange_strong(&own->state[k], &empty, FILLING)) {
    int rc = k == 0 ? make(&segment) : extend(k, &segment);
    /* There may be a descriptor, or memory, the next time. */
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

static struct shard_log_head *have_head(void) { return own ? have(0) : NULL; }

uint64_t shard_log_number(void) {
  struct shard_log_head *h = own ? head() : NULL;
  return h ? (uint64_t)h->begun << 22 ^ (uint64_t)h->pid : 0;
}

void shard_log_lose(void) {
  struct shard_log_head *h = own && !head() ? atomic_load(&last) : own ? head() : NULL;
  if (own) {
    atomic_fetch_add(h ? &h->lost : &own->early, 1);
  }
}

/* Store a note at a place that was taken; a place without one counts as lost. */
static void put(uint64_t at, uint64_t hash, uint64_t what) {
  size_t k = (at + IN_HEAD) / IN_SEGMENT;
  struct shard_log_note *notes = k < SHARD_LOG_SEGMENTS ? have(k) : NULL;
  if (notes) {
    notes += (at + IN_HEAD) % IN_SEGMENT;
    atomic_store_explicit(&notes->hash, hash, memory_order_relaxed);
    atomic_store_explicit(&notes->what, what, memory_order_release);
  }
}

void shard_log_note(uint64_t hash, uint64_t what) {
  struct shard_log_head *h = have_head();
  if (h) {
    put(atomic_fetch_add(&h->notes, 1), hash, what);
  } else {
    shard_log_lose();
  }
}

void shard_log_share(struct shard_log_share *share, size_t size, uint64_t what) {
  struct shard_log_head *h = have_head();
  size_t words = (size + 7) / 8;
  if (!h) {
    shard_log_lose();
    return;
  }
  uint64_t at = atomic_fetch_add(&h->notes, words + 1);
  uint64_t text = what + ((uint64_t)(SHARD_LOG_TEXT - SHARD_LOG_SHARE) << 16);
  share->previous = atomic_exchange(&h->shares, at + 1);
  put(at, words, what);
  for (size_t i = 0; i < words; i++) {
    uint64_t word = 0;
    memcpy(&word, (const char *)share + 8 * i, size - 8 * i < 8 ? size - 8 * i : 8);
    put(at + 1 + i, word, text);
  }
}

void shard_log_set_rank(uint32_t rank, uint32_t size) {
  struct shard_log_head *h = have_head();
  if (h) {
    atomic_store(&h->rank, (int32_t)rank);
    atomic_store(&h->size, (int32_t)size);
  }
}

void shard_log_set_job(uint64_t job) {
  struct shard_log_head *h = have_head();
  if (h) {
    atomic_store(&h->job, job);
  }
}

void shard_log_end(void) {
  struct shard_log_head *h = !own ? NULL : atomic_load(&own->early) > 0 ? have(0) : head();
  if (h && h->pid == getpid()) { /* a vforked child ends for itself */
    atomic_store(&h->ended, shard_clock_real_ns() / 1000000);
  }
}
