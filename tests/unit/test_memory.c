/* SPDX-License-Identifier: MIT */
/*
 * What the memory limits of cgroups leave: a folder as the kernel makes one, of both versions.
 * Links: build/memory
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build/memory.h"
#include "config/config.h"
#include "unit.h"

#define MB ((uint64_t)1 << 20)

static char folder[] = "/tmp/shard-memory-XXXXXX";

static int set_up(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  char command[100];
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  return system(command);
}

static char *under(const char *path) {
  static char whole[2][PATH_MAX];
  static int at;
  at = !at;
  snprintf(whole[at], sizeof(whole[at]), "%s/%s", folder, path);
  return whole[at];
}

/* Write a file, and the folders above. */
static void put(const char *path, const char *text) {
  char *whole = under(path);
  for (char *slash = whole + strlen(folder); (slash = strchr(slash + 1, '/'));) {
    *slash = 0;
    assert_true(mkdir(whole, 0700) == 0 || errno == EEXIST);
    *slash = '/';
  }
  FILE *file = fopen(whole, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static uint64_t left(const char *groups) {
  put("groups", groups);
  return shard_memory_left(under("groups"), under("fs"));
}

static void second(void **state) {
  (void)state;
  put("fs/cgroup.procs", ""); /* the root has no limit */
  put("fs/a/memory.max", "1048576000\n");
  put("fs/a/memory.current", "1000000000\n");
  put("fs/a/b/memory.max", "max\n");
  put("fs/a/b/memory.current", "1000\n");
  put("fs/a/b/c/memory.max", "104857600\n");
  put("fs/a/b/c/memory.current", "1048576\n");
  assert_true(left("0::/\n") == UINT64_MAX);
  assert_true(left("0::/none\n") == UINT64_MAX);
  assert_int_equal(left("0::/a\n"), 48576000);
  assert_int_equal(left("0::/a/b\n"), 48576000);
  assert_int_equal(left("0::/a/b/c\n"), 48576000); /* the tightest is an ancestor's */
  put("fs/a/memory.current", "5000000\n");
  assert_int_equal(left("0::/a/b/c\n"), 99 * MB);
  assert_int_equal(left("0::/a/b/c/gone/away\n"), 99 * MB);
  put("fs/a/b/c/memory.current", "204857600\n"); /* lowered since */
  assert_int_equal(left("0::/a/b/c\n"), 0);
  /* What the kernel gives up is free. */
  put("fs/a/b/c/memory.current", "104857600\n");
  put("fs/a/b/c/memory.stat", "anon 5\nfile 99999999\ninactive_anon 7\ninactive_file 20971520\n");
  assert_int_equal(left("0::/a/b/c\n"), 20 * MB);
  put("fs/a/b/c/memory.stat", "anon 5\nactive_file 20971520\n");
  assert_int_equal(left("0::/a/b/c\n"), 0);
  /* A namespace's own root, with the host's path; a path out of it. */
  put("fs/memory.max", "20971520\n");
  put("fs/memory.current", "0\n");
  assert_int_equal(left("0::/docker/0123\n"), 20 * MB);
  assert_int_equal(left("0::/../a/b/c\n"), 20 * MB);
}

static void first(void **state) {
  (void)state;
  put("fs/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
  put("fs/memory/memory.usage_in_bytes", "1000000\n");
  put("fs/memory/job/memory.limit_in_bytes", "67108864\n");
  put("fs/memory/job/memory.usage_in_bytes", "33554432\n");
  put("fs/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 1048576\n");
  put("fs/memory/a:b/memory.limit_in_bytes", "1048576\n");
  put("fs/memory/a:b/memory.usage_in_bytes", "0\n");
  const char *others = "9:name=systemd:/job\n8:cpu,cpuacct:/job\n";
  char text[200];
  snprintf(text, sizeof(text), "%s4:hugetlb,memory:/job\n", others);
  assert_int_equal(left(text), 33 * MB);
  snprintf(text, sizeof(text), "%s4:memory:/\n0::/x\n", others);
  put("fs/memory.max", "max\n");
  assert_true(left(text) > ((uint64_t)1 << 60));
  assert_true(left(others) == UINT64_MAX);
  assert_int_equal(left("4:memory:/a:b\n"), MB);
  /* Both are mounted: memory is of one, or of the other. */
  put("fs/unified/job/memory.max", "2097152\n");
  put("fs/unified/job/memory.current", "0\n");
  assert_int_equal(left("1:cpu:/\n0::/job\n"), 2 * MB);
}

static void broken(void **state) {
  (void)state;
  char text[PATH_MAX + 100];
  assert_true(left("") == UINT64_MAX);
  assert_true(left("\n:\n::\n0:\n4:memory\nmemory\n\n") == UINT64_MAX);
  assert_true(shard_memory_left("/nowhere", under("fs")) == UINT64_MAX);
  memset(text, 'x', sizeof(text));
  memcpy(text, "0::/", 4);
  strcpy(text + sizeof(text) - 2, "\n");
  assert_true(left(text) == UINT64_MAX);
}

/* What is set is taken; nothing is below the least or above the default. */
static void for_names(void **state) {
  (void)state;
  char *set[] = {"SHARD_BUILD_MEMORY=1G", NULL}, *none[] = {NULL};
  setenv("SHARD_BUILD_MEMORY", "1G", 1);
  shard_config_init(set);
  assert_int_equal(shard_memory_for_names(), 1024 * MB);
  unsetenv("SHARD_BUILD_MEMORY");
  shard_config_init(none);
  size_t memory = shard_memory_for_names();
  assert_true(memory >= SHARD_BUILD_MEMORY_LEAST && memory <= SHARD_BUILD_MEMORY);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(second), cmocka_unit_test(first),
                                     cmocka_unit_test(broken), cmocka_unit_test(for_names)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
