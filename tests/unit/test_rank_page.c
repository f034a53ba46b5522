/* SPDX-License-Identifier: MIT */
/*
 * What the processes of a rank share: the epoch, and how many files were opened.
 * Links: stats/rank_page
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/api.h"
#include "stats/rank_page.h"
#include "unit.h"

static char mark[100];

/* Before anything is shared: nothing is counted, and there is no epoch. */
static void nothing_yet(void **state) {
  (void)state;
  assert_null(shard_rank_page());
  shard_rank_page_opened(AT_FDCWD, "/data/train/a.npz", O_RDONLY);
  assert_true(shard_run_opens(0) < 0);
  assert_true(shard_run_epoch() < 0);
  assert_true(shard_run_set_epoch(1) < 0);
  assert_true(shard_run_watch(0, "/data/train/", "npz") < 0);
  assert_true(shard_run_begin(mark, 3) < 0);
}

static void counts(void **state) {
  (void)state;
  assert_int_equal(shard_run_begin(mark, sizeof(mark)), 0);
  assert_int_equal(shard_run_watch(0, "/data/train/", "npz"), 0);
  assert_int_equal(shard_run_watch(0, "data/train/", "npz"), 0);
  assert_int_equal(shard_run_watch(1, "/data/valid/", "npz"), 0);
  assert_true(shard_run_watch(SHARD_RANK_PAGE_KINDS, "/data/test/", "npz") < 0);
  assert_true(shard_run_watch(0, "/data/train", "npz") < 0);
  static const char *const ours[] = {"/data/train/a.npz", "data/train/a.npz",
                                     "/data/train/sub/b.NPZ", "/data/valid/c.npz"};
  for (size_t i = 0; i < COUNT(ours); i++) {
    shard_rank_page_opened(AT_FDCWD, ours[i], O_RDONLY);
  }
  shard_rank_page_opened(7, "/data/train/a.npz", O_RDONLY); /* the descriptor says nothing here */
  static const char *const others[] = {
      "/data/train/a.npz.idx", "/data/trainer/a.npz", "a.npz", "/data/train/", "", "/etc/passwd"};
  for (size_t i = 0; i < COUNT(others); i++) {
    shard_rank_page_opened(AT_FDCWD, others[i], O_RDONLY);
  }
  shard_rank_page_opened(7, "data/train/a.npz", O_RDONLY);
  shard_rank_page_opened(AT_FDCWD, "/data/train/a.npz", O_PATH);
  shard_rank_page_opened(AT_FDCWD, "/data/train/a.npz", O_DIRECTORY);
  assert_int_equal(shard_run_opens(0), 4);
  assert_int_equal(shard_run_opens(1), 1);
  assert_true(shard_run_opens(SHARD_RANK_PAGE_KINDS) < 0);
}

/* In a child: what the parent set, and the parent gets what it counts. */
static void child(bool anew) {
  pid_t pid = fork();
  if (pid == 0) {
    if (anew) { /* as after exec: nothing is mapped */
      atomic_store(&shard_rank_page_mapped, NULL);
      setenv("LIBSHARD_RUN", mark, 1);
      shard_rank_page_init();
    }
    bool good = shard_run_epoch() == 5;
    shard_rank_page_opened(AT_FDCWD, "/data/train/a.npz", O_RDONLY);
    _exit(!good);
  }
  int status = 1;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static void children(void **state) {
  (void)state;
  assert_int_equal(shard_run_epoch(), 0);
  assert_int_equal(shard_run_set_epoch(5), 0);
  child(false);
  child(true);
  assert_int_equal(shard_run_opens(0), 6);
}

static void wrong_marks(void **state) {
  (void)state;
  struct shard_rank_page *before = shard_rank_page();
  char wrong[4][100];
  unsigned long pid = 0, fd = 0;
  unsigned long long nonce = 0;
  assert_int_equal(sscanf(mark, "%lu %lu %llx", &pid, &fd, &nonce), 3);
  snprintf(wrong[0], sizeof(wrong[0]), "%lu %lu %llx", pid, fd, nonce + 1);
  snprintf(wrong[1], sizeof(wrong[1]), "%lu %lu %llx", pid, 0UL, nonce);
  snprintf(wrong[2], sizeof(wrong[2]), "%lu %lu %llx", 999999999UL, fd, nonce);
  snprintf(wrong[3], sizeof(wrong[3]), "nonsense");
  for (size_t i = 0; i < COUNT(wrong); i++) {
    atomic_store(&shard_rank_page_mapped, NULL);
    setenv("LIBSHARD_RUN", wrong[i], 1);
    shard_rank_page_init();
    assert_null(shard_rank_page());
  }
  atomic_store(&shard_rank_page_mapped, before);
}

/* A file like the page that another user owns, or may write to, is not believed. */
static void whose(void **state) {
  (void)state;
  struct shard_rank_page *before = shard_rank_page();
  struct stat st;
  int own = -1, fd = memfd_create("like the page", MFD_CLOEXEC);
  assert_int_equal(sscanf(mark, "%*u %d", &own), 1);
  assert_true(fstat(own, &st) == 0 && (st.st_mode & 07777) == 0600);
  assert_int_equal(pwrite(fd, before, sizeof(*before), 0), sizeof(*before));
  char like[100];
  snprintf(like, sizeof(like), "%d %d %llx", (int)getpid(), fd, (unsigned long long)before->nonce);
  setenv("LIBSHARD_RUN", like, 1);
  const struct {
    mode_t mode;
    uid_t owner;
    bool good;
  } all[] = {{0600, 0, true},  {0644, 0, true},  {0620, 0, false}, {0602, 0, false},
             {0777, 0, false}, {0600, 1, false}, {0600, 0, true}};
  for (size_t i = 0; i < COUNT(all); i++) {
    if (all[i].owner && geteuid() != 0) {
      continue; /* only root can give a file away */
    }
    assert_int_equal(fchmod(fd, all[i].mode), 0);
    assert_int_equal(fchown(fd, all[i].owner ? all[i].owner : geteuid(), (gid_t)-1), 0);
    atomic_store(&shard_rank_page_mapped, NULL);
    shard_rank_page_init();
    if (!shard_rank_page() == all[i].good) {
      fail_msg("mode %o, owner %u: %s", all[i].mode, all[i].owner,
               shard_rank_page() ? "mapped" : "not");
    }
  }
  close(fd);
  atomic_store(&shard_rank_page_mapped, before);
}

/* Another initialize() in the process: other folders, the same page. */
static void again(void **state) {
  (void)state;
  char other[100];
  assert_int_equal(shard_run_begin(other, sizeof(other)), 0);
  assert_string_equal(other, mark);
  int64_t before = shard_run_opens(0);
  shard_rank_page_opened(AT_FDCWD, "/data/train/a.npz", O_RDONLY);
  assert_int_equal(shard_run_opens(0), before);
}

/* A program that closes what it does not know: new children would not count, so nothing is told. */
static void closed(void **state) {
  (void)state;
  int fd = -1;
  assert_int_equal(sscanf(mark, "%*u %d", &fd), 1);
  close(fd);
  assert_true(shard_run_opens(0) < 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_yet), cmocka_unit_test(counts), cmocka_unit_test(children),
      cmocka_unit_test(wrong_marks), cmocka_unit_test(whose),  cmocka_unit_test(again),
      cmocka_unit_test(closed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
