/* SPDX-License-Identifier: MIT */
/*
 * The log of a process: what it notes is there, once, whatever threads and children it has.
 * Links: stats/log
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scratch.h"
#include "stats/log.h"
#include "unit.h"

#define THREADS 4
#define EACH (30000 / UNIT_PART) /* notes: several segments */

/* What is in the folder's logs. */
struct seen {
  size_t logs, notes, empty, shares, ended, lost;
  uint64_t sum;
};

static void read_log(const char *path, struct seen *seen) {
  static char data[8 << 20];
  int fd = open(path, O_RDONLY);
  ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof(data));
  const struct shard_log_head *head = (const struct shard_log_head *)data;
  const struct shard_log_note *note = (const struct shard_log_note *)(data + SHARD_LOG_HEAD);
  assert_true(n >= (ssize_t)SHARD_LOG_SEGMENT);
  assert_int_equal(n % SHARD_LOG_SEGMENT, 0);
  assert_int_equal(head->magic, SHARD_LOG_MAGIC);
  seen->logs++;
  seen->ended += head->ended != 0;
  seen->lost += head->lost;
  for (uint64_t i = 0; i < head->notes && SHARD_LOG_HEAD + 16 * i < (uint64_t)n; i++) {
    uint64_t what = note[i].what;
    bool opened = what == shard_log_what(7, 3, SHARD_LOG_OPENED);
    seen->notes += opened;
    seen->empty += what == 0;
    seen->shares += (what >> 16 & 255) == SHARD_LOG_SHARE;
    seen->sum += opened ? note[i].hash : 0;
  }
  close(fd);
}

static struct seen look(const char *folder) {
  struct seen seen = {0};
  DIR *logs = opendir(folder);
  for (struct dirent *d; logs && (d = readdir(logs));) {
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder, d->d_name);
    if (*d->d_name != '.') {
      read_log(path, &seen);
      unlink(path);
    }
  }
  if (logs) {
    closedir(logs);
  }
  return seen;
}

static void note(uint64_t hash) { shard_log_note(hash, shard_log_what(7, 3, SHARD_LOG_OPENED)); }

/* Run in a child, which has no log as yet. */
static void in_child(void (*act)(void)) {
  pid_t pid = fork();
  if (pid == 0) {
    act();
    shard_log_end();
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static char folder[300];

static void *note_often(void *first) {
  for (uint64_t i = 0; i < EACH; i++) {
    note((uint64_t)(uintptr_t)first + i);
  }
  return NULL;
}

static void note_in_threads(void) {
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) {
    pthread_create(&threads[i], NULL, note_often, (void *)(i * EACH + 1));
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
}

static void threads(void **state) {
  (void)state;
  in_child(note_in_threads);
  struct seen seen = look(folder);
  uint64_t all = (uint64_t)THREADS * EACH;
  assert_int_equal(seen.logs, 1);
  assert_int_equal(seen.notes, all);
  assert_int_equal(seen.sum, all * (all + 1) / 2);
  assert_int_equal(seen.empty + seen.lost, 0);
  assert_int_equal(seen.ended, 1);
}

/* A log for each process that notes something, and for no other. */
static void note_in_family(void) {
  note(1);
  for (int i = 0; i < 3; i++) {
    if (fork() == 0) {
      note(10);
      if (fork() == 0) {
        note(100);
        raise(SIGKILL);
      }
      wait(NULL);
      _exit(0);
    }
    wait(NULL);
  }
  if (vfork() == 0) {
    note(1000);
    _exit(0);
  }
  if (fork() == 0) {
    _exit(0);
  }
  wait(NULL);
  note(1);
}

static void processes(void **state) {
  (void)state;
  in_child(note_in_family);
  struct seen seen = look(folder);
  assert_int_equal(seen.logs, 7);
  assert_int_equal(seen.notes, 9);
  assert_int_equal(seen.sum, 2 + 3 * 110 + 1000);
  assert_int_equal(seen.ended, 1); /* shard_log_end() is not called by the others */
  assert_int_equal(seen.lost, 0);
}

/* A share follows the one before it. */
static void note_shares(void) {
  union {
    struct shard_log_share share;
    char bytes[SHARD_LOG_SHARE_MOST];
  } u = {.share = {.size = 1}};
  for (int i = 0; i < 40; i++) { /* they go over the end of a segment */
    shard_log_share(&u.share, sizeof(u), shard_log_what(7, 3, SHARD_LOG_SHARE));
  }
  if (u.share.previous == 0) {
    _exit(1);
  }
}

static void shares(void **state) {
  (void)state;
  in_child(note_shares);
  struct seen seen = look(folder);
  assert_int_equal(seen.shares, 40);
  assert_int_equal(seen.empty + seen.lost, 0);
}

/* Without space all that is noted counts: as a note, an empty place or lost. */
static void note_without_space(void) {
  signal(SIGXFSZ, SIG_DFL);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){2 * SHARD_LOG_SEGMENT, 2 * SHARD_LOG_SEGMENT});
  for (int i = 0; i < 20000; i++) {
    note(1);
  }
}

static void no_space(void **state) {
  (void)state;
  in_child(note_without_space);
  struct seen seen = look(folder);
  assert_int_equal(seen.notes, (2 * SHARD_LOG_SEGMENT - SHARD_LOG_HEAD) / 16);
}

/* Where there is no log, the loss is told once there is one. */
static void note_without_descriptors(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, limit.rlim_max});
  for (int i = 0; i < 5; i++) {
    note(1);
  }
  setrlimit(RLIMIT_NOFILE, &limit);
}

static void no_descriptors(void **state) {
  (void)state;
  in_child(note_without_descriptors);
  struct seen seen = look(folder);
  assert_int_equal(seen.logs, 1);
  assert_int_equal(seen.lost, 5);
}

/* A name that is taken is left alone. */
static void note_once(void) { note(1); }
static void note_and_execute(void) {
  note(1);
  shard_log_init(folder); /* as a program that this process executes */
  note(1);
}

static void names(void **state) {
  (void)state;
  in_child(note_once);
  in_child(note_and_execute);
  struct seen seen = look(folder);
  assert_int_equal(seen.logs, 3);
  assert_int_equal(seen.notes, 3);
}

static int begin(void **state) {
  if (set_up(state) != 0) {
    return -1;
  }
  snprintf(folder, sizeof(folder), "%s/stats", dir);
  return shard_log_init(folder) ? 0 : -1;
}

static int end(void **state) { return rmdir(folder) != 0 ? -1 : tear_down(state); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads),  cmocka_unit_test(processes),      cmocka_unit_test(shares),
      cmocka_unit_test(no_space), cmocka_unit_test(no_descriptors), cmocka_unit_test(names),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
