/* SPDX-License-Identifier: MIT */
/*
 * rank_page.h - the page that the processes of a rank share: which epoch it is in, how many files
 * of a dataset they have opened, and what they have listed (libshard.h, shard_run_begin).
 *
 * Under the shard view of directories, a process without a page makes a page that only forked
 * children share: it tells whether files were opened in directories that no process has listed.
 *
 * The page is a memfd of the rank's main process. A forked child has it mapped; one that was
 * started anew opens it through /proc, by what LIBSHARD_RUN says, if it is this user's and nobody
 * else may write to it. Nothing is left to remove, whatever kills the rank. A count is one atomic
 * addition; it may be made in a signal handler, and between (v)fork and exec.
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
#define SHARD_RANK_PAGE_DATASETS 2 /* the kind of a directory of SHARD_DATASET */
#define SHARD_RANK_PAGE_LISTED 63  /* the bit of all these directories */
#define SHARD_RANK_PAGE_FOLDERS 8

struct shard_rank_page {
  uint64_t magic, nonce;
  _Atomic uint64_t epoch; /* 0: none has begun */
  _Atomic uint64_t opens[SHARD_RANK_PAGE_KINDS];
  _Atomic uint64_t listed;  /* a bit for each bucket of SHARD_DATASET; and for its directories */
  _Atomic uint32_t folders; /* filled in */
  struct shard_rank_page_folder {
    uint32_t kind, length;  /* of prefix */
    uint32_t suffix_length; /* of suffix */
    char suffix[36];        /* in any case */
    char prefix[PATH_MAX];  /* ends with a slash */
  } folder[SHARD_RANK_PAGE_FOLDERS];
};

/* The page; NULL: this process has none, and nothing is counted. */
extern _Atomic(struct shard_rank_page *) shard_rank_page_mapped
    __attribute__((visibility("hidden")));

static inline struct shard_rank_page *shard_rank_page(void) {
  return atomic_load_explicit(&shard_rank_page_mapped, memory_order_acquire);
}

/* Map the page that the environment names, if it does. errno is kept. */
void shard_rank_page_init(void);

/* Make a page that forked children share, of the directories of SHARD_DATASET. */
void shard_rank_page_make_for_datasets(void);

/*
 * Returns whether this process has made that page, files of the directories of SHARD_DATASET were
 * opened by absolute paths, and no process has listed one of the directories. Returns false in an
 * orphan, such as a fork server whose rank has ended: the rank may have listed.
 */
bool shard_rank_page_is_unlisted(void);

/* Count an open by openat(dirfd, path, flags), if the file is of a dataset. */
void shard_rank_page_opened(int dirfd, const char *path, int flags);
