/* SPDX-License-Identifier: MIT */
#include "stats/notes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "base/trust.h"
#include "host/climb.h"
#include "stats/late.h"

struct shard_log_head *shard_notes_head;
char shard_notes_file[PATH_MAX + 16];
static _Atomic(struct shard_log_note *) segments[SHARD_LOG_SEGMENTS];

int shard_notes_reserve(int fd, off_t at) {
  static const char zero[4096];
  off_t end = at + (off_t)SHARD_LOG_SEGMENT;
  struct rlimit limit;
  /* Past the limit of a file's size the kernel sends a SIGXFSZ, which kills. */
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && (rlim_t)end > limit.rlim_cur) {
    return EFBIG;
  }
  if (syscall(SYS_fallocate, fd, 0, at, (off_t)SHARD_LOG_SEGMENT) == 0) {
    return 0;
  }
  /* On a tmpfs each signal ends it, and there may be one each millisecond. */
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) {
    return errno;
  }
  for (; at < end; at += (off_t)sizeof(zero)) {
    errno = 0;
    if (TEMP_FAILURE_RETRY(syscall(SYS_pwrite64, fd, zero, sizeof(zero), at)) !=
        (long)sizeof(zero)) {
      return errno ? errno : ENOSPC;
    }
  }
  return 0;
}

/* Whether the log has these bytes: touching a mapping beyond the end of its file is a SIGBUS. */
static bool reaches(int fd, off_t end) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= end;
}

int shard_notes_open(const char *path, int flags, uint64_t magic, uint64_t *nonce) {
  uint64_t found[2] = {0};
  struct stat st;
  int fd = shard_kernel_open(AT_FDCWD, path, O_RDWR | O_NONBLOCK | O_NOCTTY | flags);
  if (fd < 0) {
    return -1;
  }
  int rc = shard_kernel_fstat(fd, &st) != 0                   ? errno
           : shard_trust_judge(&st, NULL) != SHARD_TRUST_GOOD ? EPERM
           : syscall(SYS_pread64, fd, found, sizeof(found), 0) != (long)sizeof(found) ||
                   found[0] != magic
               ? EBADMSG
               : 0;
  *nonce = found[1];
  if (rc != 0) {
    shard_kernel_close(fd);
    errno = rc;
  }
  return rc ? -1 : fd;
}

int shard_notes_reopen(void) {
  uint64_t nonce;
  int fd = shard_notes_open(shard_notes_file, O_NOFOLLOW, SHARD_LOG_MAGIC, &nonce);
  if (fd >= 0 && nonce != shard_notes_head->nonce) {
    shard_kernel_close(fd);
    fd = -1;
  }
  return fd;
}

/* Reserve and map the k-th segment; NULL if there is none to be had. */
static struct shard_log_note *map_segment(uint64_t k) {
  uint8_t none = SHARD_LOG_NONE;
  int fd = shard_notes_reopen();
  if (fd < 0) {
    return NULL;
  }
  off_t at = (off_t)((k + 1) * SHARD_LOG_SEGMENT);
  if (atomic_compare_exchange_strong(&shard_notes_head->space[k], &none, SHARD_LOG_RESERVING)) {
    int rc = shard_notes_reserve(fd, at);
    atomic_store(&shard_notes_head->space[k], rc == 0 ? SHARD_LOG_READY : SHARD_LOG_FAILED);
  }
  /* Whoever reserves may have been killed: then these notes are lost. */
  for (int i = 0; i < 1000 && atomic_load(&shard_notes_head->space[k]) == SHARD_LOG_RESERVING;
       i++) {
    syscall(SYS_nanosleep, &(struct timespec){0, 1000000}, NULL);
  }
  void *new = MAP_FAILED;
  if (atomic_load(&shard_notes_head->space[k]) == SHARD_LOG_READY &&
      reaches(fd, at + (off_t)SHARD_LOG_SEGMENT)) {
    new = mmap(NULL, SHARD_LOG_SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
  }
  shard_kernel_close(fd);
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

/* The statistics are made, of what was noted before: let them say that something is missing. While
 * they are being made there is nothing to change, and shardctl looks once more when it is done. */
__attribute__((noinline)) static void tell_late(void) {
  char target[sizeof(shard_notes_file)];
  size_t n = strlen(shard_notes_file), end = strlen(".log");
  memcpy(target, shard_notes_file, n + 1);
  target[n > end ? n - end : 0] = 0;
  if (shard_late_tell(target, shard_notes_head->nonce) > 0) {
    atomic_store(&shard_notes_head->ended, 2);
  }
}

static void look_at_end(void) {
  if (__builtin_expect(atomic_load(&shard_notes_head->ended) == 1, 0)) {
    tell_late();
  }
}

void shard_notes_lose(void) {
  atomic_fetch_add(&shard_notes_head->lost, 1);
  look_at_end();
}

static struct shard_log_head *early; /* in memory: what it has is lost */

void shard_notes_add_at(uint64_t at, uint64_t hash, uint64_t what) {
  uint64_t k = at / SHARD_LOG_NOTES;
  bool is_time = (what >> 16 & 0xff) == SHARD_LOG_TIME;
  struct shard_log_note *segment = k < SHARD_LOG_SEGMENTS ? atomic_load(&segments[k]) : NULL;
  if (!segment && k < SHARD_LOG_SEGMENTS && shard_notes_head != early) {
    segment = map_segment(k);
  }
  if (segment) {
    atomic_store_explicit(&segment[at % SHARD_LOG_NOTES].hash, hash, memory_order_relaxed);
    atomic_store_explicit(&segment[at % SHARD_LOG_NOTES].what, what, memory_order_release);
  } else {
    atomic_fetch_add(&shard_notes_head->untimed, is_time);
  }
  if (!is_time) {
    look_at_end();
  }
}

void shard_notes_add(uint64_t hash, uint64_t what) {
  shard_notes_add_at(atomic_fetch_add(&shard_notes_head->notes, 1), hash, what);
}

uint64_t shard_notes_what(int dataset, uint64_t epoch, enum shard_log_kind kind) {
  uint64_t after = epoch - shard_notes_dataset((uint32_t)dataset)->first; /* or before it */
  if (after >= SHARD_LOG_EPOCHS) {
    shard_notes_lose();
    return 0;
  }
  return shard_log_what(after, (unsigned)dataset, kind);
}

uint64_t shard_notes_now(void) {
  int64_t now = shard_clock_ms() - shard_notes_head->clock;
  return now > 0 ? (uint64_t)now : 0;
}

void shard_notes_time(int dataset) {
  uint64_t now = shard_notes_now(), last = atomic_load(&shard_notes_head->timed);
  if (now > last && now - last > now / 256 &&
      atomic_compare_exchange_strong(&shard_notes_head->timed, &last, now)) {
    shard_notes_add(now, shard_log_what(0, (unsigned)dataset, SHARD_LOG_TIME));
  }
}

size_t shard_notes_path(int fd, char *buf) {
  ssize_t n = shard_climb_read_path(fd, buf, PATH_MAX);
  return n > 0 && buf[0] == '/' ? (size_t)n : 0;
}

struct shard_log_head *shard_notes_map(int fd) {
  void *memory = MAP_FAILED;
  errno = EBADMSG;
  if (reaches(fd, (off_t)SHARD_LOG_SEGMENT)) {
    memory = mmap(NULL, SHARD_LOG_SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  return memory == MAP_FAILED ? NULL : memory;
}

void shard_notes_unmap(struct shard_log_head *log) { munmap(log, SHARD_LOG_SEGMENT); }

bool shard_notes_begin_in_memory(uint64_t nonce) {
  void *memory = early ? early
                       : mmap(NULL, SHARD_LOG_SEGMENT, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return false;
  }
  shard_notes_head = early = memory;
  shard_notes_head->nonce = nonce;
  atomic_store(&shard_notes_head->ended, nonce != 0);
  if (nonce == 0) {
    madvise(memory, SHARD_LOG_SEGMENT, MADV_WIPEONFORK);
  }
  return true;
}

uint64_t shard_notes_count_early(void) {
  return early
             ? atomic_load(&early->lost) + atomic_load(&early->notes) - atomic_load(&early->untimed)
             : 0;
}
