/* SPDX-License-Identifier: MIT */
/* Files that appear whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "scratch.h"
#include "unit.h"

static void write_text(int fd, const char *text) {
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void has(const char *path, const char *want) {
  char got[100] = "";
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  assert_true(fd >= 0);
  assert_true(read(fd, got, sizeof(got) - 1) >= 0);
  close(fd);
  assert_string_equal(got, want);
}

static mode_t mode_of(const char *path) {
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  return st.st_mode & 07777;
}

static void appears(void **state) {
  (void)state;
  static const mode_t modes[] = {0600, 0640, 0644};
  char temporary[PATH_MAX];
  struct shard_atomic_file w;
  mode_t before = umask(027);
  for (int mode = SHARD_ATOMIC_FILE_PRIVATE; mode <= SHARD_ATOMIC_FILE_SHARED; mode++) {
    unlink(file);
    assert_int_equal(shard_atomic_file_open(&w, file, (enum shard_atomic_file_mode)mode,
                                            SHARD_ATOMIC_FILE_SYNCED),
                     0);
    shard_atomic_file_temporary(&w, temporary);
    assert_int_equal(access(temporary, F_OK), 0);
    assert_int_equal(access(file, F_OK), -1);
    write_text(w.fd, "new");
    assert_int_equal(shard_atomic_file_publish(&w), 0);
    assert_int_equal(access(temporary, F_OK), -1);
    has(file, "new");
    assert_int_equal(mode_of(file), modes[mode]);
    shard_atomic_file_abort(&w); /* nothing is left to do */
    has(file, "new");
  }
  umask(before);
}

static void does_not_appear(void **state) {
  (void)state;
  char temporary[PATH_MAX], none[PATH_MAX + 8];
  struct shard_atomic_file w;
  assert_int_equal(
      shard_atomic_file_open(&w, file, SHARD_ATOMIC_FILE_SHARED, SHARD_ATOMIC_FILE_LAZY), 0);
  write_text(w.fd, "old");
  assert_int_equal(shard_atomic_file_publish(&w), 0);
  assert_int_equal(
      shard_atomic_file_open(&w, file, SHARD_ATOMIC_FILE_SHARED, SHARD_ATOMIC_FILE_LAZY), 0);
  write_text(w.fd, "new");
  shard_atomic_file_temporary(&w, temporary);
  errno = 4242;
  shard_atomic_file_abort(&w);
  assert_int_equal(errno, 4242);
  assert_int_equal(access(temporary, F_OK), -1);
  has(file, "old");

  /* The temporary is gone: publishing fails, and what was there stays. */
  assert_int_equal(
      shard_atomic_file_open(&w, file, SHARD_ATOMIC_FILE_SHARED, SHARD_ATOMIC_FILE_LAZY), 0);
  unlink(shard_atomic_file_temporary(&w, temporary));
  assert_int_equal(shard_atomic_file_publish(&w), -ENOENT);
  has(file, "old");
  snprintf(none, sizeof(none), "%s/none/x", dir);
  assert_int_equal(
      shard_atomic_file_open(&w, none, SHARD_ATOMIC_FILE_SHARED, SHARD_ATOMIC_FILE_LAZY), -ENOENT);
}

static void many_at_once(void **state) {
  (void)state;
  struct shard_atomic_file w;
  assert_int_equal(
      shard_atomic_file_open(&w, file, SHARD_ATOMIC_FILE_UMASK, SHARD_ATOMIC_FILE_LAZY), 0);
  write_text(w.fd, "finished");
  assert_int_equal(shard_atomic_file_finish(&w), 0);
  assert_int_equal(w.fd, -1);
  assert_int_equal(shard_atomic_file_finish(&w), 0);
  assert_int_equal(shard_atomic_file_publish(&w), 0);
  has(file, "finished");
}

static void dead_ones_go(void **state) {
  (void)state;
  char living[PATH_MAX], dead[PATH_MAX], other[PATH_MAX];
  struct shard_atomic_file w;
  snprintf(dead, sizeof(dead), "%s.tmp.abc1EF", file);
  snprintf(other, sizeof(other), "%s.tmp.abc1EFG", file);
  close(open(dead, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  close(open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  assert_int_equal(
      shard_atomic_file_open(&w, file, SHARD_ATOMIC_FILE_SHARED, SHARD_ATOMIC_FILE_LAZY), 0);
  shard_atomic_file_remove_stale(file);
  assert_int_equal(access(shard_atomic_file_temporary(&w, living), F_OK), 0);
  assert_int_equal(access(dead, F_OK), -1);
  assert_int_equal(access(other, F_OK), 0);
  shard_atomic_file_abort(&w);
  unlink(other);
}

static void only_files(void **state) {
  (void)state;
  char none[PATH_MAX + 8];
  snprintf(none, sizeof(none), "%s/none/x", dir);
  assert_int_equal(shard_atomic_file_may_replace(none), 0);
  assert_int_equal(shard_atomic_file_may_replace("/dev/null"), -EEXIST);
  assert_int_equal(shard_atomic_file_may_replace("/dev/stdout"), -EEXIST);
  assert_int_equal(shard_atomic_file_may_replace(dir), -EISDIR);
  assert_int_equal(shard_atomic_file_may_replace(file), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(appears), cmocka_unit_test(does_not_appear),
                                     cmocka_unit_test(many_at_once), cmocka_unit_test(dead_ones_go),
                                     cmocka_unit_test(only_files)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
