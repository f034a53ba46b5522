/* SPDX-License-Identifier: MIT */
/*
 * What a process does once: a child that shares the memory waits for the thread that does it; one
 * that has a copy does it itself.
 *
 * Links: view/once
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "view/once.h"

static atomic_int slot, go_on;
static atomic_bool entered;

static void nap(long ms) { nanosleep(&(struct timespec){0, ms * 1000000}, NULL); }

/* Holds the slot until go_on is 1; so long, if a time is given, in milliseconds. */
static void *fill(void *most) {
  if (shard_once_enter(&slot) == 0) {
    atomic_store(&entered, true);
    for (long i = 0; !atomic_load(&go_on) && (!most || i < *(long *)most); i++) {
      nap(1);
    }
    shard_once_leave(&slot, SHARD_ONCE_READY);
  }
  return NULL;
}

static pthread_t begin(long *most) {
  pthread_t thread;
  atomic_store(&slot, SHARD_ONCE_EMPTY);
  atomic_store(&go_on, 0);
  atomic_store(&entered, false);
  assert_int_equal(pthread_create(&thread, NULL, fill, most), 0);
  while (!atomic_load(&entered)) {
    nap(1);
  }
  return thread;
}

/* The exit status of a child; 10 + what shard_once_enter() gave it. */
static int status_of(pid_t pid) {
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#ifndef __SANITIZE_THREAD__ /* ThreadSanitizer makes a fork() of vfork(): nothing would be shared  \
                             */
static void vforked(void **state) {
  (void)state;
  static long most = 200; /* nobody else can end it */
  pthread_t thread = begin(&most);
  pid_t pid = vfork();
  if (pid == 0) {
    _exit(10 + shard_once_enter(&slot)); /* this thread stands still; the other goes on */
  }
  assert_int_equal(status_of(pid), 11);
  pthread_join(thread, NULL);
}
#endif

static void forked(void **state) {
  (void)state;
  for (int raw = 0; raw < 2; raw++) {
    pthread_t thread = begin(NULL);
    pid_t pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
    if (pid == 0) {
      alarm(100);
      _exit(10 + shard_once_enter(&slot));
    }
    assert_int_equal(status_of(pid), 10);
    atomic_store(&go_on, 1);
    pthread_join(thread, NULL);
    assert_int_equal(shard_once_enter(&slot), 1);
  }
}

/* The child of a child has a memory of its own, too. */
static void forked_twice(void **state) {
  (void)state;
  pthread_t thread = begin(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(100);
    int mine = shard_once_enter(&slot); /* and holds it */
    pid_t inner = fork();
    if (inner == 0) {
      _exit(10 + shard_once_enter(&slot));
    }
    _exit(mine == 0 ? status_of(inner) : 1);
  }
  assert_int_equal(status_of(pid), 10);
  atomic_store(&go_on, 1);
  pthread_join(thread, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#ifndef __SANITIZE_THREAD__
      cmocka_unit_test(vforked),
#endif
      cmocka_unit_test(forked), cmocka_unit_test(forked_twice)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
