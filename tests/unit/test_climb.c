/* SPDX-License-Identifier: MIT */
/*
 * From a directory up to a root: whatever path led there, however deep, and without descriptors.
 * (More of mounts: behaviour/calls.sh and stats.sh.)
 *
 * Links: host/climb
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/climb.h"
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
static int climb(const char *path, const struct shard_climb_root *roots, size_t count,
                 struct shard_climb *out) {
  struct statx st;
  int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  assert_true(fd >= 0);
  assert_int_equal(shard_climb_stat(fd, "", &st), 0);
  int rc = shard_climb_find(fd, &st, roots, count, out);
  close(fd);
  return rc;
}

static struct shard_climb_root look(const char *path) {
  struct shard_climb_root r = {.path = path};
  assert_int_equal(shard_climb_look(&r), 1);
  assert_int_not_equal(r.ino, 0);
  return r;
}

static void levels(void **state) {
  struct shard_climb c;
  struct shard_climb_root r = look(root);
  char path[sizeof(deepest)];
  (void)state;
  strcpy(path, deepest);
  for (size_t n = DEEP;; n--) {
    assert_int_equal(climb(path, &r, 1, &c), 1);
    assert_int_equal(c.levels, n);
    assert_int_equal(c.which, 0);
    assert_int_equal(c.mount_count, 0);
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
  struct shard_climb c;
  char inner[sizeof(root) + 4], link[sizeof(root) + 8], below[sizeof(root) + 16];
  (void)state;
  snprintf(inner, sizeof(inner), "%s/a/b", root);
  snprintf(link, sizeof(link), "%s/../link", root);
  snprintf(below, sizeof(below), "%s/a/b/a", link);
  assert_int_equal(symlink("root", link), 0);
  struct shard_climb_root roots[] = {
      {.path = "/nowhere"}, look(root), look(inner), look(inner), look("/")};
  assert_int_equal(climb(below, roots, COUNT(roots), &c), 1);
  assert_int_equal(c.which, 2); /* the innermost, and of equal ones the first */
  assert_int_equal(c.levels, 1);
  assert_int_equal(climb(link, roots, COUNT(roots), &c), 1);
  assert_int_equal(c.which, 1);
  assert_int_equal(climb(top, roots, COUNT(roots), &c), 1);
  assert_int_equal(c.which, 4);
  if (roots[1].born != 0) { /* one that had its number before */
    roots[1].born--;
    assert_int_equal(climb(link, roots, 2, &c), 0);
    roots[1].born = 0;
    assert_int_equal(climb(link, roots, 2, &c), 1);
  }
  assert_int_equal(shard_climb_look(&roots[0]), 0);
  assert_int_equal(roots[0].ino, 0);
  unlink(link);
}

static void names(void **state) {
  char buf[PATH_MAX];
  (void)state;
  int fd = open(deepest, O_PATH | O_CLOEXEC);
  assert_int_equal(shard_climb_read_names(fd, 0, buf, sizeof(buf)), 0);
  assert_string_equal(buf, "");
  assert_int_equal(shard_climb_read_names(fd, 3, buf, sizeof(buf)), 5);
  assert_string_equal(buf, "b/a/b");
  assert_int_equal(shard_climb_read_names(fd, DEEP + 1, buf, sizeof(buf)), 4 + 2 * DEEP);
  assert_int_equal(memcmp(buf, "root/a/b", 8), 0);
  assert_int_equal(shard_climb_read_names(fd, DEEP + 100, buf, sizeof(buf)), -ERANGE);
  assert_int_equal(shard_climb_read_names(fd, 1, buf, 100), -ENAMETOOLONG);
  close(fd);
  fd = open("/", O_PATH | O_CLOEXEC);
  assert_int_equal(shard_climb_read_names(fd, 0, buf, sizeof(buf)), 0);
  assert_int_equal(shard_climb_read_names(fd, 2, buf, sizeof(buf)), -ERANGE);
  close(fd);
}

/* Where no descriptor is left: only a very deep directory needs one, and says so. */
static void no_descriptors(void **state) {
  struct shard_climb c;
  struct shard_climb_root r = look(root);
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
  shard_climb_stat(deep, "", &st);
  int of_deep = shard_climb_find(deep, &st, &r, 1, &c);
  shard_climb_stat(fd, "", &st);
  int of_shallow = shard_climb_find(fd, &st, &r, 1, &c);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_int_equal(of_deep, -EMFILE);
  assert_int_equal(of_shallow, 1);
  close(deep);
  close(fd);
}

#define NO_MOUNTS 77 /* exit status: this user may not mount */
#define CLONED 1     /* open_tree(2), OPEN_TREE_CLONE */
#define BY_EMPTY 4   /* move_mount(2), MOVE_MOUNT_F_EMPTY_PATH */

/* What is found for directory fd: 1 and the path from the root to the mount, or another outcome. */
static int find_mounted(int fd, char *buf) {
  struct shard_climb c;
  struct statx st;
  struct shard_climb_root r = look(root);
  assert_int_equal(shard_climb_stat(fd, "", &st), 0);
  assert_int_equal(shard_climb_find(fd, &st, &r, 1, &c), 0);
  assert_true(c.mount_count >= 1); /* /tmp may be one, too */
  return shard_climb_find_mounted(&c, &r, 1, buf);
}

/* In a child: mount root/a elsewhere, in two steps. */
static int mount_in_steps(void) {
  char part[sizeof(root) + 4], elsewhere[sizeof(top) + 16], buf[PATH_MAX];
  snprintf(part, sizeof(part), "%s/a", root);
  snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", top);
  if ((unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
      mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
    return NO_MOUNTS;
  }
  int tree = (int)syscall(SYS_open_tree, AT_FDCWD, part, CLONED | O_CLOEXEC);
  int fd = tree < 0 ? -1 : openat(tree, "b", O_PATH | O_CLOEXEC);
  if (fd < 0) {
    return NO_MOUNTS;
  }
  int before = find_mounted(fd, buf);
  if (before != -ESTALE || syscall(SYS_move_mount, tree, "", AT_FDCWD, elsewhere, BY_EMPTY) != 0) {
    return before != -ESTALE ? 1 : NO_MOUNTS;
  }
  return find_mounted(fd, buf) == 1 && strcmp(buf, "a") == 0 ? 0 : 2;
}

/* Of a mount that mountinfo does not show, for it is mounted nowhere yet, nothing can be told; and
 * it is looked for again. */
static void mount_not_shown(void **state) {
  char elsewhere[sizeof(top) + 16];
  int status;
  (void)state;
  snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", top);
  assert_int_equal(mkdir(elsewhere, 0700), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    _exit(mount_in_steps());
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(rmdir(elsewhere), 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == NO_MOUNTS) {
    skip();
  }
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(levels),         cmocka_unit_test(several_roots),   cmocka_unit_test(names),
      cmocka_unit_test(no_descriptors), cmocka_unit_test(mount_not_shown),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
