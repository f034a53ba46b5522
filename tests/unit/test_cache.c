/* SPDX-License-Identifier: MIT */
/*
 * What the cache opens, locks and keeps: of nobody else's, whole, and by one process at a time.
 * Links: cache/kept, cache/lock, cache/safe, cache/store
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cache/lock.h"
#include "cache/safe.h"
#include "cache/store.h"
#include "cache/stream.h"
#include "config/config.h"
#include "libshard.h"
#include "unit.h"

#define KEY "0123456789abcdef0123456789abcdef"
#define SIZE 10000

static char folder[] = "/tmp/shard-cache-XXXXXX";
static char file[PATH_MAX], lock[PATH_MAX], err[400];

static int set_up(void **state) {
  (void)state;
  static char cache[PATH_MAX];
  if (!mkdtemp(folder)) {
    return -1;
  }
  snprintf(cache, sizeof(cache), "SHARD_CACHE_DIR=%s", folder);
  snprintf(file, sizeof(file), "%s/perm-" KEY ".perm", folder);
  snprintf(lock, sizeof(lock), "%s/perm-" KEY ".lock", folder);
  char *environment[] = {cache, "SHARD_TIMEOUT=1", NULL};
  shard_config_init(environment);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  unlink(file);
  unlink(lock);
  return rmdir(folder);
}

/* Make what is kept: bytes that a seed tells. */
static void make(unsigned seed) {
  struct shard_kept *making;
  uint8_t bytes[SIZE];
  int fd;
  for (size_t i = 0; i < SIZE; i++) {
    bytes[i] = (uint8_t)(i * 7 + i / 256 + seed);
  }
  assert_int_equal(shard_kept_begin(KEY, SIZE, &fd, &making, err, sizeof(err)), 0);
  assert_non_null(making);
  assert_int_equal(pwrite(fd, bytes, SIZE, SHARD_KEPT_HEADER), SIZE);
  assert_int_equal(shard_kept_end(making, 1, err, sizeof(err)), 0);
  close(fd);
}

static int open_kept(uint64_t size) {
  int fd, rc = shard_kept_open(KEY, size, &fd, err, sizeof(err));
  if (rc == 0) {
    close(fd);
  }
  return rc;
}

static void kept(void **state) {
  (void)state;
  struct shard_kept *making;
  int fd;
  assert_int_equal(open_kept(SIZE), -ENOENT);
  make(1);
  assert_int_equal(open_kept(SIZE), 0);
  assert_int_equal(open_kept(SIZE - 1), -EBADMSG);
  assert_int_equal(shard_kept_begin(KEY, SIZE, &fd, &making, err, sizeof(err)), 0);
  assert_null(making);
  close(fd);
  /* One that is given up leaves nothing. */
  unlink(file);
  assert_int_equal(shard_kept_begin(KEY, SIZE, &fd, &making, err, sizeof(err)), 0);
  assert_int_equal(shard_kept_end(making, 0, err, sizeof(err)), 0);
  close(fd);
  assert_int_equal(open_kept(SIZE), -ENOENT);
  /* What a dead process of this number has left, perhaps a link. */
  char temporary[PATH_MAX + 32];
  snprintf(temporary, sizeof(temporary), "%s.tmp.%ld", file, (long)getpid());
  assert_int_equal(symlink("/dev/null", temporary), 0);
  make(1);
  assert_int_equal(open_kept(SIZE), 0);
  assert_int_equal(access(temporary, F_OK), -1);
  assert_int_equal(shard_kept_begin("../../etc", SIZE, &fd, &making, err, sizeof(err)), -EINVAL);
  shard_kept_remove(KEY);
  assert_int_equal(access(file, F_OK), -1);
  assert_int_equal(access(lock, F_OK), -1);
}

/* Each byte counts. */
static void damaged(void **state) {
  (void)state;
  struct shard_kept *making;
  int fd;
  make(2);
  int out = open(file, O_RDWR | O_CLOEXEC);
  for (off_t at = 0; at < SHARD_KEPT_HEADER + SIZE; at += at < 64 || at > 14000 ? 1 : 37) {
    uint8_t was, now;
    assert_int_equal(pread(out, &was, 1, at), 1);
    now = was ^ 1;
    assert_int_equal(pwrite(out, &now, 1, at), 1);
    /* The header ends at byte 64. */
    assert_int_equal(open_kept(SIZE), at < 64 || at >= SHARD_KEPT_HEADER ? -EBADMSG : 0);
    assert_int_equal(pwrite(out, &was, 1, at), 1);
  }
  assert_int_equal(open_kept(SIZE), 0);
  assert_int_equal(ftruncate(out, SHARD_KEPT_HEADER + SIZE - 1), 0);
  assert_int_equal(open_kept(SIZE), -EBADMSG);
  close(out);
  /* It is made anew, whatever is there. */
  for (int what = 0; what < 3; what++) {
    unlink(file);
    assert_int_equal(what == 0   ? mkfifo(file, 0600)
                     : what == 1 ? symlink("/dev/zero", file)
                                 : mknod(file, S_IFREG | 0600, 0),
                     0);
    assert_true(open_kept(SIZE) < 0);
    make(3);
    assert_int_equal(open_kept(SIZE), 0);
  }
  /* Where it cannot be: an error, and no leftover. */
  unlink(file);
  assert_int_equal(mkdir(file, 0700), 0);
  assert_int_equal(shard_kept_begin(KEY, SIZE, &fd, &making, err, sizeof(err)), 0);
  assert_true(shard_kept_end(making, 1, err, sizeof(err)) < 0);
  assert_non_null(strstr(err, file));
  close(fd);
  rmdir(file);
  shard_kept_remove(KEY);
}

static void others(void **state) {
  (void)state;
  struct stat st;
  make(4);
  int fd = shard_safe_read(file);
  assert_true(fd >= 0);
  close(fd);
  for (mode_t mode = 0; mode < 01000; mode++) {
    chmod(file, mode);
    bool open_to_others = mode & 022;
    fd = shard_safe_open(file, O_RDONLY, 0, false, &st, err, sizeof(err));
    assert_true(open_to_others ? fd == -EPERM || fd == -EACCES
                               : fd >= 0 || (fd == -EACCES && geteuid() != 0));
    close(fd >= 0 ? fd : -1);
  }
  chmod(file, 0600);
  if (geteuid() == 0) {
    assert_int_equal(chown(file, 65534, -1), 0);
    assert_int_equal(shard_safe_open(file, O_RDONLY, 0, false, &st, err, sizeof(err)), -EPERM);
    assert_non_null(strstr(err, "65534"));
    assert_int_equal(open_kept(SIZE), -EPERM);
    /* A lock of another user's: whose it is, and not that one cannot write. */
    int held;
    assert_int_equal(chown(lock, 65534, -1), 0);
    assert_int_equal(shard_lock_take(lock, 0, NULL, NULL, &held, err, sizeof(err)), -EPERM);
    assert_non_null(strstr(err, lock));
    assert_non_null(strstr(err, "belongs to user 65534"));
    unlink(lock);
  }
  unlink(file);
  assert_int_equal(symlink(lock, file), 0);
  assert_int_equal(shard_safe_read(file), -ELOOP);
  unlink(file);
  assert_int_equal(shard_safe_read(folder), -EINVAL);
  /* The parts of a stream. */
  char base[PATH_MAX], path[PATH_MAX + 8];
  snprintf(base, sizeof(base), "%s/stream", folder);
  snprintf(path, sizeof(path), "%s.end", base);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(shard_stream_get_state(base), SHARD_STREAM_BROKEN);
  unlink(path);
}

/* ---- locks ---- */

static void late(void **state) {
  (void)state;
  struct shard_kept *making;
  int held, fd;
  assert_int_equal(
      shard_lock_take(lock, shard_clock_ms() + 1000, NULL, NULL, &held, err, sizeof(err)), 0);
  int64_t begin = shard_clock_ms();
  assert_int_equal(shard_kept_begin(KEY, SIZE, &fd, &making, err, sizeof(err)), -ETIMEDOUT);
  assert_true(shard_clock_ms() - begin >= 900);
  assert_non_null(strstr(err, "SHARD_TIMEOUT"));
  assert_non_null(strstr(err, lock));
  /* It is not removed from under whoever has it. */
  shard_kept_remove(KEY);
  assert_int_equal(access(lock, F_OK), 0);
  shard_lock_release(held);
  shard_kept_remove(KEY);
  assert_int_equal(access(lock, F_OK), -1);
  /* A pipe is no lock, and waits for nobody. */
  assert_int_equal(mkfifo(lock, 0600), 0);
  assert_int_equal(
      shard_lock_take(lock, shard_clock_ms() + 1000, NULL, NULL, &held, err, sizeof(err)), -EPERM);
  unlink(lock);
  assert_int_equal(symlink("nowhere", lock), 0);
  assert_int_equal(
      shard_lock_take(lock, shard_clock_ms() + 1000, NULL, NULL, &held, err, sizeof(err)), -EPERM);
  unlink(lock);
}

/* A lock that others can open, as chmod -R leaves one: whoever has it open cannot hold ours up. */
static void readable(void **state) {
  (void)state;
  int held, fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct stat st;
  assert_true(fd >= 0 && fchmod(fd, 0644) == 0 && chmod(folder, 0755) == 0);
  int other = open(lock, O_RDONLY | O_CLOEXEC); /* as another user could */
  assert_int_equal(flock(other, LOCK_EX), 0);
  /* One that has it already does, until it lets go; but nobody else gets it any more. */
  assert_int_equal(shard_lock_take(lock, 0, NULL, NULL, &held, err, sizeof(err)), -ETIMEDOUT);
  assert_true(stat(lock, &st) == 0 && (st.st_mode & 0777) == 0600);
  flock(other, LOCK_UN);
  assert_int_equal(fchmod(fd, 0640), 0);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(shard_lock_take(lock, 0, NULL, NULL, &held, err, sizeof(err)), 0);
    assert_true(stat(lock, &st) == 0 && (st.st_mode & 0777) == 0600);
    assert_true(fstat(held, &st) == 0 && st.st_nlink == 1);
    shard_lock_release(held);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
  }
  close(other);
  close(fd);
  if (geteuid() == 0) {
    pid_t child = fork();
    if (child == 0) {
      bool opened = setuid(65534) != 0 || open(lock, O_RDONLY) >= 0;
      _exit(opened || errno != EACCES);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
  unlink(lock);
  assert_int_equal(chmod(folder, 0700), 0);
}

enum { PROCESSES = 4, ROUNDS = 400 / (UNIT_PART > 1 ? 4 : 1) };

/* Processes that take the lock, and remove its file before they release it. */
static void removed(void **state) {
  (void)state;
  int *inside = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t children[PROCESSES];
  assert_true(inside != MAP_FAILED);
  for (int k = 0; k < PROCESSES; k++) {
    children[k] = fork();
    for (int i = 0; children[k] == 0 && i < ROUNDS; i++) {
      int held, rc = shard_lock_take(lock, shard_clock_ms() + 600000, NULL, NULL, &held, err,
                                     sizeof(err));
      if (rc != 0 || __atomic_fetch_add(inside, 1, __ATOMIC_SEQ_CST) != 0) {
        fprintf(stderr, "round %d: %s\n", i, rc ? strerror(-rc) : "two have the lock");
        _exit(1);
      }
      usleep((useconds_t)(i % 3) * 50);
      __atomic_fetch_sub(inside, 1, __ATOMIC_SEQ_CST);
      unlink(lock); /* from now on another one may have the lock of a new file */
      shard_lock_release(held);
    }
    if (children[k] == 0) {
      _exit(0);
    }
  }
  int failed = 0;
  for (int k = 0; k < PROCESSES; k++) {
    int status;
    assert_int_equal(waitpid(children[k], &status, 0), children[k]);
    failed += status != 0;
  }
  munmap(inside, 4096);
  assert_int_equal(failed, 0);
}

/* A child that was forked while the lock was held has it open, and lives on. */
static void inherited(void **state) {
  (void)state;
  int held;
  assert_int_equal(shard_lock_take(lock, 0, NULL, NULL, &held, err, sizeof(err)), 0);
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  shard_lock_release(held);
  int rc = shard_lock_take(lock, 0, NULL, NULL, &held, err, sizeof(err));
  shard_lock_release(held);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  assert_int_equal(rc, 0);
}

/* A link that leads to no listing is replaced; one that cannot be looked at is an error. */
static void pinned(void **state) {
  (void)state;
  static struct shard_request r = {.pin = "job", .key = KEY, .job_key = KEY, .since = 1};
  char name[SHARD_CACHE_NAME], target[8] = "";
  struct shard_found found;
  snprintf(r.cache, sizeof(r.cache), "%s", folder);
  shard_cache_name_print(SHARD_CACHE_JOB, KEY, shard_store_pin_id(r.pin), name);
  char *link = shard_store_path(&r, name);
  assert_int_equal(symlink("none", link), 0);
  assert_int_equal(shard_store_find(&r, &found, err, sizeof(err)), SHARD_STORE_NONE);
  assert_int_equal(readlink(link, target, sizeof(target)), 4);
  strcpy(found.name, "new");
  found.listing = NULL;
  bool first = false;
  assert_int_equal(shard_store_pin(&r, &found, &first, err, sizeof(err)), 0);
  assert_false(first); /* others may have had what it led to */
  assert_int_equal(readlink(link, target, sizeof(target)), 3);
  unlink(link);
  free(link);
  memset(r.cache, 'x', sizeof(r.cache) - 1);
  assert_int_equal(shard_store_find(&r, &found, err, sizeof(err)), -ENAMETOOLONG);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kept),      cmocka_unit_test(damaged),  cmocka_unit_test(others),
      cmocka_unit_test(late),      cmocka_unit_test(readable), cmocka_unit_test(removed),
      cmocka_unit_test(inherited), cmocka_unit_test(pinned),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
