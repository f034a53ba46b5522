/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of the host that a builder closes: in both ways, few and many, with gaps.
 *
 * Links: ctl/descriptors
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/descriptors.h"
#include "unit.h"

#define FIRST 4
#define MANY 3000

/*
 * In a child: have 0 to `count` - 1 open and one far above, close from FIRST on, and say what is
 * wrong: 1 too few were closed, 2 too many, 3 setting up.
 */
static int close_in_child(int count, int far, bool each) {
  pid_t pid = fork();
  if (pid == 0) {
    for (int fd = 0; fd < count; fd++) {
      if (fcntl(fd, F_GETFD) < 0 && dup2(0, fd) < 0) {
        _exit(3);
      }
    }
    if (far > 0 && dup2(0, far) < 0) {
      _exit(3);
    }
    /* a host with no number left, whose limit is lower than what it has open */
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &limit);
    ctl_close_from(FIRST, each);
    for (int fd = 0; fd < FIRST; fd++) {
      if (fcntl(fd, F_GETFD) < 0) {
        _exit(2);
      }
    }
    int most = far > count ? far : count;
    for (int fd = FIRST; fd <= most; fd++) {
      if (fcntl(fd, F_GETFD) >= 0) {
        _exit(1);
      }
    }
    _exit(0);
  }
  int status = -1;
  assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
  return status;
}

static void both_ways(void **state) {
  (void)state;
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  int many = limit.rlim_max > MANY + 100 ? MANY : (int)limit.rlim_max - 100;
  for (int each = 0; each < 2; each++) {
    assert_int_equal(close_in_child(FIRST, 0, each), 0);
    assert_int_equal(close_in_child(FIRST + 1, 0, each), 0);
    assert_int_equal(close_in_child(many, many + 50, each), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(both_ways)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
