/* SPDX-License-Identifier: MIT */
#include "stats/rank_page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adapter/api.h"
#include "base/clock.h"
#include "base/kernel.h"
#include "base/trust.h"
#include "base/words.h"
#include "base/xxh64.h"
#include "config/config.h"
#include "config/dataset_list.h"

#define MARK "LIBSHARD_RUN"
/* A program may rely on low descriptors to be free. */
#define LEAST_DESCRIPTOR 200

_Atomic(struct shard_rank_page *) shard_rank_page_mapped;
static struct {
  pid_t pid; /* this process, if it has made the page */
  int fd;
  dev_t dev;
  ino_t ino;
} own;

static struct shard_rank_page *map(int fd) {
  void *memory =
      mmap(NULL, sizeof(struct shard_rank_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/* Read "PID FD NONCE", as shard_run_begin() prints it. */
static bool parse(const char *mark, unsigned long *pid, unsigned long *fd, uint64_t *nonce) {
  char *after_pid, *after_fd, *end;
  *pid = strtoul(mark, &after_pid, 10);
  *fd = strtoul(after_pid, &after_fd, 10);
  *nonce = strtoull(after_fd, &end, 16);
  return after_pid != mark && after_fd != after_pid && end != after_fd && !*end;
}

void shard_rank_page_init(void) {
  const char *mark = getenv(MARK);
  unsigned long pid, fd;
  char path[64];
  uint64_t nonce, found[2];
  struct stat st;
  int saved = errno;
  if (!mark || !parse(mark, &pid, &fd, &nonce)) {
    return;
  }
  snprintf(path, sizeof(path), "/proc/%lu/fd/%lu", pid, fd);
  /* The process may have ended, and another user's process may have its number. */
  int opened = shard_kernel_open(AT_FDCWD, path, O_RDWR | O_NONBLOCK | O_NOCTTY);
  if (opened >= 0 && shard_kernel_fstat(opened, &st) == 0 &&
      shard_trust_check(&st, NULL) == SHARD_TRUST_OK &&
      st.st_size == (off_t)sizeof(struct shard_rank_page) &&
      pread(opened, found, sizeof(found), 0) == (ssize_t)sizeof(found) &&
      found[0] == SHARD_RANK_PAGE_MAGIC && found[1] == nonce) {
    atomic_store(&shard_rank_page_mapped, map(opened));
  }
  shard_kernel_close(opened);
  errno = saved;
}

/* Returns whether the page's descriptor is open: else a process that is started now cannot count.
 */
static bool can_be_joined(void) {
  struct stat st;
  return own.pid == getpid() && fstat(own.fd, &st) == 0 && st.st_dev == own.dev &&
         st.st_ino == own.ino;
}

/* Make the page. Returns 0 or an errno. */
static int make(void) {
  struct stat st;
  int fd = (int)syscall(SYS_memfd_create, "libshard", MFD_CLOEXEC);
  if (fd < 0) {
    return errno;
  }
  int high = fcntl(fd, F_DUPFD_CLOEXEC, LEAST_DESCRIPTOR);
  if (high >= 0) {
    shard_kernel_close(fd);
    fd = high;
  }
  bool good = fchmod(fd, S_IRUSR | S_IWUSR) == 0 && /* a new memfd has mode 0777 */
              ftruncate(fd, sizeof(struct shard_rank_page)) == 0 && fstat(fd, &st) == 0;
  struct shard_rank_page *page = good ? map(fd) : NULL;
  if (!page) {
    int rc = errno;
    shard_kernel_close(fd);
    return rc;
  }
  page->nonce = (uint64_t)shard_clock_real_ns() + (uint64_t)getpid() * SHARD_XXH_PRIME1;
  page->magic = SHARD_RANK_PAGE_MAGIC;
  own.pid = getpid();
  own.fd = fd;
  own.dev = st.st_dev;
  own.ino = st.st_ino;
  atomic_store(&shard_rank_page_mapped,
               page); /* a parent's page stays mapped: a thread may count in it */
  return 0;
}

int shard_run_begin(char *mark, size_t size) {
  int saved = errno;
  int rc = can_be_joined() ? 0 : make();
  if (rc == 0) {
    struct shard_rank_page *page = shard_rank_page();
    atomic_store(&page->folders, 0);
    int n =
        snprintf(mark, size, "%ld %d %llx", (long)own.pid, own.fd, (unsigned long long)page->nonce);
    rc = n < 0 || (size_t)n >= size ? ENAMETOOLONG : 0;
  }
  errno = saved;
  return -rc;
}

static pid_t watching,
    parent; /* the process that has made a page without a nonce, and its parent */

void shard_rank_page_make_for_datasets(void) {
  struct shard_dataset_item item;
  char path[PATH_MAX];
  if (shard_rank_page()) {
    return;
  }
  void *memory = mmap(NULL, sizeof(struct shard_rank_page), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return;
  }
  atomic_store(&shard_rank_page_mapped, memory);
  watching = getpid();
  parent = getppid();
  for (const char *p = shard_config()->dataset; p && (p = shard_dataset_list_next(p, &item));) {
    if (!shard_dataset_item_is_bucket(&item) && item.path_length + 2 < sizeof(path)) {
      memcpy(path, item.path, item.path_length);
      strcpy(path + item.path_length, "/");
      shard_run_watch(SHARD_RANK_PAGE_DATASETS, path, "");
    }
  }
}

bool shard_rank_page_is_unlisted(void) {
  struct shard_rank_page *page = shard_rank_page();
  return page && page->nonce == 0 && watching == getpid() && parent == getppid() &&
         atomic_load(&page->opens[SHARD_RANK_PAGE_DATASETS]) >
             1 && /* one file may be a list of names */
         !(atomic_load(&page->listed) >> SHARD_RANK_PAGE_LISTED & 1);
}

int shard_run_watch(unsigned kind, const char *prefix, const char *suffix) {
  struct shard_rank_page *page = shard_rank_page();
  size_t n = strlen(prefix), end = strlen(suffix);
  uint32_t i = page ? atomic_load(&page->folders) : SHARD_RANK_PAGE_FOLDERS;
  if (i >= SHARD_RANK_PAGE_FOLDERS || kind >= SHARD_RANK_PAGE_KINDS || n == 0 ||
      prefix[n - 1] != '/' || n >= sizeof(page->folder[i].prefix) ||
      end >= sizeof(page->folder[i].suffix)) {
    return -EINVAL;
  }
  struct shard_rank_page_folder *folder = &page->folder[i];
  folder->kind = kind;
  folder->length = (uint32_t)n;
  folder->suffix_length = (uint32_t)end;
  memcpy(folder->prefix, prefix, n + 1);
  memcpy(folder->suffix, suffix, end + 1);
  atomic_store(&page->folders, i + 1);
  return 0;
}

void shard_rank_page_opened(int dirfd, const char *path, int flags) {
  struct shard_rank_page *page = shard_rank_page();
  if (!page || flags & (O_PATH | O_DIRECTORY) || (dirfd != AT_FDCWD && *path != '/')) {
    return;
  }
  uint32_t n = atomic_load_explicit(&page->folders, memory_order_acquire);
  for (uint32_t i = 0; i < n && i < SHARD_RANK_PAGE_FOLDERS; i++) {
    const struct shard_rank_page_folder *folder = &page->folder[i];
    if (strncmp(path, folder->prefix, folder->length) != 0) {
      continue;
    }
    size_t rest = strlen(path + folder->length);
    if (rest >= folder->suffix_length &&
        shard_words_equal_nocase(path + folder->length + rest - folder->suffix_length,
                                 folder->suffix)) {
      atomic_fetch_add_explicit(&page->opens[folder->kind], 1, memory_order_relaxed);
    }
    return;
  }
}

int64_t shard_run_opens(unsigned kind) {
  int saved = errno;
  bool whole = kind < SHARD_RANK_PAGE_KINDS && can_be_joined();
  errno = saved;
  return whole ? (int64_t)atomic_load(&shard_rank_page()->opens[kind]) : -ENOENT;
}

void shard_run_set_listed(unsigned bucket) {
  struct shard_rank_page *page = shard_rank_page();
  if (page && bucket < 64) {
    atomic_fetch_or(&page->listed, UINT64_C(1) << bucket);
  }
}

int shard_run_listed(unsigned bucket) {
  struct shard_rank_page *page = shard_rank_page();
  if (!page || bucket >= 64 || own.pid != getpid()) {
    return -ENOENT;
  }
  return (int)(atomic_load(&page->listed) >> bucket & 1);
}

int shard_run_set_epoch(uint64_t epoch) {
  struct shard_rank_page *page = shard_rank_page();
  if (!page ||
      own.pid != getpid()) { /* a worker, or a page of the job that has started this process */
    return -ENOENT;
  }
  atomic_store(&page->epoch, epoch);
  return 0;
}

int64_t shard_run_epoch(void) {
  struct shard_rank_page *page = shard_rank_page();
  return page && page->nonce != 0 ? (int64_t)atomic_load(&page->epoch) : -ENOENT;
}
