/* SPDX-License-Identifier: MIT */
/*
 * rank_page.h - maps the page that the processes of a rank share. The page holds the rank's epoch,
 * the number of files of a dataset that the processes have opened, and the datasets that they have
 * listed (shard_run_begin() of adapter/api.h).
 *
 * The page is a memfd of the rank's main process. A forked child inherits the mapping. A child that
 * was started anew opens the memfd through /proc, by the value of LIBSHARD_RUN, if the memfd is
 * this user's and no other user may write to it. No file has to be removed, however the rank ends.
 *
 * Under the shard view of directories, a process without a page makes an anonymous page, which only
 * forked children share. That page tells whether files were opened in directories that no process
 * has listed.
 */
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SHARD_RANK_PAGE_MAGIC                                                                      \
  0x316e757264726873ULL /* "shrdrun1"; other versions differ in size                               \
                         */
#define SHARD_RANK_PAGE_KINDS 3
#define SHARD_RANK_PAGE_DATASETS 2 /* the kind of the directories of SHARD_DATASET */
#define SHARD_RANK_PAGE_LISTED 63  /* the bit of `listed` for the directories of SHARD_DATASET */
#define SHARD_RANK_PAGE_FOLDERS 8

/* The page. */
struct shard_rank_page {
  uint64_t magic, nonce;  /* nonce 0: the page is anonymous */
  _Atomic uint64_t epoch; /* 0: no epoch has begun */
  _Atomic uint64_t opens[SHARD_RANK_PAGE_KINDS];
  _Atomic uint64_t listed;  /* a bit for each bucket of SHARD_DATASET; one for its directories */
  _Atomic uint32_t folders; /* elements of `folder` that are set */
  /* The files whose opens are counted, as of `kind`: those whose path is prefix...suffix. */
  struct shard_rank_page_folder {
    uint32_t kind, length;  /* length: of prefix */
    uint32_t suffix_length; /* of suffix */
    char suffix[36];        /* compared without regard to case */
    char prefix[PATH_MAX];  /* ends with a slash */
  } folder[SHARD_RANK_PAGE_FOLDERS];
};

/* The page; NULL: this process has no page, and nothing is counted. */
extern _Atomic(struct shard_rank_page *) shard_rank_page_mapped
    __attribute__((visibility("hidden")));

/* Returns the page, or NULL. */
static inline struct shard_rank_page *shard_rank_page(void) {
  return atomic_load_explicit(&shard_rank_page_mapped, memory_order_acquire);
}

/* Maps the page that LIBSHARD_RUN names, if the variable is set. Keeps errno. */
void shard_rank_page_init(void);

/*
 * Makes the anonymous page, to count opens in the directories of SHARD_DATASET. Does nothing if
 * this process has a page.
 */
void shard_rank_page_make_for_datasets(void);

/*
 * Returns whether this process has made the anonymous page, files of the directories of
 * SHARD_DATASET were opened at least twice by absolute paths, and no process has listed one of the
 * directories. (One open may be of a list of names.)
 * Returns false in an orphan, such as a fork server whose rank has ended: the rank may have listed
 * a directory.
 */
bool shard_rank_page_is_unlisted(void);

/*
 * Counts an open by openat(dirfd, path, flags), if `path` matches an element of `folder` of the
 * page. An open with O_PATH or O_DIRECTORY is not counted. A count is one atomic addition.
 * Async-signal-safe, and safe between fork or vfork and exec.
 */
void shard_rank_page_opened(int dirfd, const char *path, int flags);
