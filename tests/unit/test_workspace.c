/* SPDX-License-Identifier: MIT */
/*
 * Workspaces: more than there are in static memory, given back, and without memory.
 * Links: base/workspace
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/workspace.h"
#include "unit.h"

#define MANY 300

static struct shard_workspace held[MANY];

static void take_all(int value) {
  for (int i = 0; i < MANY; i++) {
    char *at = shard_workspace_take(&held[i], SHARD_WORKSPACE_SIZE);
    assert_non_null(at);
    memset(at, value + i, SHARD_WORKSPACE_SIZE);
  }
}

static void give_all(int value) {
  for (int i = 0; i < MANY; i++) {
    for (size_t k = 0; k < SHARD_WORKSPACE_SIZE; k++) {
      assert_int_equal(held[i].at[k], (char)(value + i));
    }
    shard_workspace_give(&held[i]);
  }
}

static void test_many(void **state) {
  (void)state;
  errno = 77;
  take_all(0);
  give_all(0);
  take_all(5);
  give_all(5);
  assert_int_equal(errno, 77);
}

/* A loader's threads find one in static memory each: that costs no system call. */
static void test_static(void **state) {
  (void)state;
  int mapped = 0;
  for (int i = 0; i < 48; i++) {
    shard_workspace_take(&held[i], SHARD_WORKSPACE_SIZE);
    mapped += !held[i].slot;
  }
  for (int i = 0; i < 48; i++) {
    shard_workspace_give(&held[i]);
  }
  assert_int_equal(mapped, 0);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* they need memory, too */
static void test_no_memory(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    struct rlimit none = {0, 0};
    struct shard_workspace w;
    take_all(0);
    setrlimit(RLIMIT_AS, &none);
    errno = 77;
    char *at = shard_workspace_take(&w, SHARD_WORKSPACE_SIZE);
    shard_workspace_give(&w);
    bool right = !at && errno == 77;
    shard_workspace_give(&held[0]); /* the next one has that */
    right = right && shard_workspace_take(&w, SHARD_WORKSPACE_SIZE) && w.slot;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_many),
    cmocka_unit_test(test_static),
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    cmocka_unit_test(test_no_memory),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
