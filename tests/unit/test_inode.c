/* SPDX-License-Identifier: MIT */
/*
 * From a directory up to a root: whatever path led there, however deep, and without descriptors.
 * (Of mounts: behaviour/calls.sh and closed.sh.)
 *
 * Links: host/inode
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "host/inode.h"
#include "unit.h"

#define DEEP 600 /* levels: more than one path of "../" leads up */

static char top[64], root[80], deepest[80 + 2 * DEEP];

static int setup(void **state) {
  (void)state;
  strcpy(top, "/tmp/test-climb.XXXXXX");
  assert_non_null(mkdtemp(top));
  snprintf(root, sizeof(root), "%s/root", top);
  assert_int_equal(mkdir(root, 0700), 0);
  strcpy(deepest, root);
  for (int i = 0; i < DEEP; i++) {
    strcat(deepest, i % 2 ? "/b" : "/a");
    assert_int_equal(mkdir(deepest, 0700), 0);
  }
  return 0;
}

static int teardown(void **state) {
  (void)state;
  for (int i = 0; i < DEEP; i++) {
    assert_int_equal(rmdir(deepest), 0);
    *strrchr(deepest, '/') = 0;
  }
  assert_int_equal(rmdir(root), 0);
  return rmdir(top);
}

/* Go up from `path`. */
static int climb(const char *path, const struct shard_inode_root *roots, size_t count,
                 struct shard_inode_ancestor *out) {
  struct statx st;
  int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  assert_true(fd >= 0);
  assert_int_equal(shard_inode_stat(fd, "", &st), 0);
  int rc = shard_inode_find_ancestor(fd, &st, roots, count, out);
  close(fd);
  return rc;
}

static struct shard_inode_root look(const char *path) {
  struct statx st;
  int fd = shard_inode_open_directory(path, &st);
  assert_true(fd >= 0);
  assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
  shard_inode_close(fd);
  assert_int_equal(fcntl(fd, F_GETFD), -1);
  return (struct shard_inode_root){.path = path, .dev = shard_inode_device(&st), .ino = st.stx_ino};
}

static void no_root(void **state) {
  struct statx st;
  (void)state;
  assert_int_equal(shard_inode_open_directory("/nowhere", &st), -ENOENT);
  assert_int_equal(shard_inode_open_directory("/proc/version", &st), -ENOTDIR);
}

static void levels(void **state) {
  struct shard_inode_ancestor c;
  struct shard_inode_root r = look(root);
  char path[sizeof(deepest)];
  (void)state;
  strcpy(path, deepest);
  for (size_t n = DEEP;; n--) {
    assert_int_equal(climb(path, &r, 1, &c), 1);
    assert_int_equal(c.levels, n);
    assert_int_equal(c.which, 0);
    if (n == 0) {
      break;
    }
    *strrchr(path, '/') = 0;
  }
  assert_int_equal(climb(top, &r, 1, &c), 0);
  assert_int_equal(climb("/", &r, 1, &c), 0);
  assert_int_equal(climb(root, NULL, 0, &c), 0);
}

static void several_roots(void **state) {
  struct shard_inode_ancestor c;
  char inner[sizeof(root) + 4], link[sizeof(root) + 8], below[sizeof(root) + 16];
  (void)state;
  snprintf(inner, sizeof(inner), "%s/a/b", root);
  snprintf(link, sizeof(link), "%s/../link", root);
  snprintf(below, sizeof(below), "%s/a/b/a", link);
  assert_int_equal(symlink("root", link), 0);
  struct shard_inode_root roots[] = {
      {.path = "/nowhere"}, look(root), look(inner), look(inner), look("/")};
  assert_int_equal(climb(below, roots, COUNT(roots), &c), 1);
  assert_int_equal(c.which, 2); /* the innermost, and of equal ones the first */
  assert_int_equal(c.levels, 1);
  assert_int_equal(climb(link, roots, COUNT(roots), &c), 1);
  assert_int_equal(c.which, 1);
  assert_int_equal(climb(top, roots, COUNT(roots), &c), 1);
  assert_int_equal(c.which, 4);
  unlink(link);
}

static void names(void **state) {
  char buf[PATH_MAX];
  (void)state;
  int fd = open(deepest, O_PATH | O_CLOEXEC);
  assert_int_equal(shard_inode_path(fd, buf, sizeof(buf)), strlen(deepest));
  assert_string_equal(buf, deepest);
  assert_int_equal(shard_inode_path(fd, buf, 100), -ENAMETOOLONG);
  close(fd);
  assert_int_equal(shard_inode_path(fd, buf, sizeof(buf)), -ENOENT);
  assert_string_equal(shard_path_last_names("/a/bc", 0), "");
  assert_string_equal(shard_path_last_names("/a/bc", 1), "bc");
  assert_string_equal(shard_path_last_names("/a/bc", 2), "a/bc");
  assert_null(shard_path_last_names("/a/bc", 3));
  assert_string_equal(shard_path_last_names("", 0), "");
  assert_null(shard_path_last_names("", 1));
}

/* Where no descriptor is left: only a very deep directory needs one, and says so. */
static void no_descriptors(void **state) {
  struct shard_inode_ancestor c;
  struct shard_inode_root r = look(root);
  struct statx st;
  struct rlimit before, none;
  char shallow[sizeof(root) + 8];
  (void)state;
  snprintf(shallow, sizeof(shallow), "%s/a/b/a", root);
  int deep = open(deepest, O_PATH | O_CLOEXEC), fd = open(shallow, O_PATH | O_CLOEXEC);
  assert_true(deep >= 0 && fd >= 0);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  shard_inode_stat(deep, "", &st);
  int of_deep = shard_inode_find_ancestor(deep, &st, &r, 1, &c);
  shard_inode_stat(fd, "", &st);
  int of_shallow = shard_inode_find_ancestor(fd, &st, &r, 1, &c);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_int_equal(of_deep, -EMFILE);
  assert_int_equal(of_shallow, 1);
  close(deep);
  close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(levels),         cmocka_unit_test(several_roots), cmocka_unit_test(names),
      cmocka_unit_test(no_descriptors), cmocka_unit_test(no_root),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
