/* SPDX-License-Identifier: MIT */
/*
 * What the cache opens, locks, keeps and removes: of nobody else's, whole, by one process at a
 * time, and for as long as somebody needs it. Links: cache/collect, cache/filenames,
 * cache/permutation, cache/lock, cache/safe
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "cache/collect.h"
#include "cache/filenames.h"
#include "cache/lock.h"
#include "cache/safe.h"
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
  snprintf(file, sizeof(file), "%s/" KEY ".perm", folder);
  snprintf(lock, sizeof(lock), "%s/" KEY ".lock", folder);
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

/* Whether a process has a lock of a file. */
static bool is_held(const char *path) {
  struct stat st;
  assert_int_equal(stat(path, &st), 0);
  return shard_lock_is_held(&st);
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
  assert_true(is_held(file)); /* while it is open */
  close(fd);
  assert_false(is_held(file));
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
  assert_true(is_held(file));
  close(fd);
  /* One that is given up leaves nothing. */
  unlink(file);
  assert_int_equal(shard_kept_begin(KEY, SIZE, &fd, &making, err, sizeof(err)), 0);
  assert_int_equal(shard_kept_end(making, 0, err, sizeof(err)), 0);
  close(fd);
  assert_int_equal(open_kept(SIZE), -ENOENT);
  /* What a dead process of this number has left, perhaps a link. */
  char temporary[PATH_MAX + 32];
  snprintf(temporary, sizeof(temporary), "%s/" KEY ".new.%ld", folder, (long)getpid());
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
    fd = shard_safe_open(file, O_RDONLY, 0, &st, err, sizeof(err));
    assert_true(open_to_others ? fd == -EPERM || fd == -EACCES
                               : fd >= 0 || (fd == -EACCES && geteuid() != 0));
    close(fd >= 0 ? fd : -1);
  }
  chmod(file, 0600);
  if (geteuid() == 0) {
    assert_int_equal(chown(file, 65534, -1), 0);
    assert_int_equal(shard_safe_open(file, O_RDONLY, 0, &st, err, sizeof(err)), -EPERM);
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
  assert_int_equal(mkfifo(file, 0600), 0); /* nobody is waited for */
  assert_int_equal(shard_safe_read(file), -EINVAL);
  unlink(file);
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
  shard_lock_release(held, NULL);
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
    shard_lock_release(held, NULL);
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
      shard_lock_release(held, lock); /* first another one may have the lock of a new file */
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
  assert_int_equal(access(lock, F_OK), -1);
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
  shard_lock_release(held, NULL);
  int rc = shard_lock_take(lock, 0, NULL, NULL, &held, err, sizeof(err));
  shard_lock_release(held, lock);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  assert_int_equal(rc, 0);
}

/* ---- who has a file ---- */

/* Another process, which does as it is told (play). */
struct other {
  pid_t pid;
  int to;
};

static void *map = MAP_FAILED;
static int joined = -1;

/* Join the file: -errno, or whether no process had it. */
static int join(bool held) {
  bool first = true;
  joined = shard_lock_join(file, held, &first, err, sizeof(err));
  return joined < 0 ? joined : first;
}

static int map_joined(void) {
  map = mmap(NULL, 1, PROT_READ, MAP_SHARED, joined, 0);
  return map == MAP_FAILED ? -errno : 0;
}

static int close_joined(void) { return close(joined) ? -errno : 0; }

static int unmap(void) { return munmap(map, 1) ? -errno : 0; }

static bool remove_file(void) { return shard_lock_remove(AT_FDCWD, file); }

static void play(int from) {
  char command;
  while (read(from, &command, 1) == 1) {
    int rc = command == 'j'   ? join(false)
             : command == 'h' ? join(true)
             : command == 'm' ? map_joined()
             : command == 'c' ? close_joined()
             : command == 'u' ? unmap()
                              : remove_file();
    if (write(from, &rc, sizeof(rc)) != sizeof(rc)) {
      break;
    }
  }
  _exit(0);
}

static struct other start_other(void) {
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  struct other o = {fork(), ends[1]};
  if (o.pid == 0) {
    close(ends[1]);
    play(ends[0]);
  }
  close(ends[0]);
  assert_true(o.pid > 0);
  return o;
}

static void tell(const struct other *o, char command) {
  assert_int_equal(write(o->to, &command, 1), 1);
}

static int answer(const struct other *o) {
  int rc;
  assert_int_equal(read(o->to, &rc, sizeof(rc)), sizeof(rc));
  return rc;
}

static int ask(const struct other *o, char command) {
  tell(o, command);
  return answer(o);
}

static void end_other(const struct other *o) {
  close(o->to);
  assert_int_equal(waitpid(o->pid, NULL, 0), o->pid);
}

static void make_file(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  assert_true(fd >= 0 && write(fd, "x", 1) == 1);
  close(fd);
}

static bool is_there(void) { return access(file, F_OK) == 0; }

/* Several have it at a time; one that is held is had only where another one has it. */
static void shared(void **state) {
  (void)state;
  struct other one = start_other(), two = start_other();
  for (char how = 'h'; how <= 'j'; how += 'j' - 'h') {
    assert_int_equal(ask(&one, how), -ENOENT);
    make_file(file);
    assert_int_equal(ask(&one, 'j'), 1);
    assert_int_equal(ask(&two, how), 0);
    assert_int_equal(join(how == 'h'), 0);
    assert_int_equal(ask(&one, 'c'), 0);
    assert_int_equal(ask(&two, 'c'), 0);
    assert_int_equal(ask(&one, how), 0); /* this process has it */
    close_joined();
    assert_int_equal(ask(&one, 'c'), 0);
    assert_true(is_there());
    assert_int_equal(ask(&two, how), how == 'h' ? -ENOENT : 1);
    assert_int_equal(is_there(), how != 'h');
    unlink(file);
  }
  end_other(&two);
  end_other(&one);
}

/* Whoever has it mapped has it, and who was forked then. */
static void mapped(void **state) {
  (void)state;
  struct other one = start_other();
  make_file(file);
  assert_int_equal(join(false), 1);
  assert_int_equal(map_joined(), 0);
  close_joined();
  assert_int_equal(ask(&one, 'h'), 0);
  assert_int_equal(ask(&one, 'c'), 0);
  struct other child = start_other();
  unmap();
  assert_int_equal(ask(&one, 'h'), 0);
  assert_int_equal(ask(&one, 'c'), 0);
  assert_int_equal(ask(&child, 'u'), 0);
  assert_int_equal(ask(&one, 'h'), -ENOENT);
  assert_false(is_there());
  end_other(&child);
  end_other(&one);
}

/* Wait until a process waits, for a lock. */
static void await_sleep(pid_t pid) {
  char path[64], state = 0;
  snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
  while (state != 'S') {
    FILE *f = fopen(path, "r");
    assert_true(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
    fclose(f);
    sched_yield();
  }
}

/* One that waits for a lock while the file is removed has no lock of what goes. */
static void removed_meanwhile(void **state) {
  (void)state;
  struct other one = start_other();
  for (int i = 0; i < 8; i++) {
    bool held = i % 2, anew = i / 2 % 2;
    make_file(file);
    int fd = open(file, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    tell(&one, held ? 'h' : 'j');
    await_sleep(one.pid);
    if (anew) {
      make_file(lock);
      assert_int_equal(rename(lock, file), 0);
    } else {
      unlink(file);
    }
    close(fd);
    int rc = answer(&one);
    assert_int_equal(rc, anew && !held ? 1 : -ENOENT);
    assert_int_equal(is_there(), rc >= 0);
    if (rc >= 0) {
      assert_int_equal(ask(&one, 'c'), 0);
      unlink(file);
    }
  }
  end_other(&one);
}

/* Of two that want what nobody holds, neither has it; and who removes, or who has it, wins. */
static void races(void **state) {
  (void)state;
  struct other one = start_other();
  for (int i = 0; i < ROUNDS; i++) {
    make_file(file);
    tell(&one, 'h');
    assert_int_equal(join(true), -ENOENT);
    assert_int_equal(answer(&one), -ENOENT);
    assert_false(is_there());
  }
  for (int i = 0; i < ROUNDS; i++) {
    make_file(file);
    tell(&one, 'j');
    bool gone = remove_file();
    int rc = answer(&one);
    assert_int_equal(rc, gone ? -ENOENT : 1);
    assert_int_equal(is_there(), !gone);
    if (!gone) {
      assert_int_equal(ask(&one, 'c'), 0);
      unlink(file);
    }
  }
  end_other(&one);
}

static void removable(void **state) {
  (void)state;
  struct other one = start_other();
  const char *name = KEY ".perm";
  int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), held;
  assert_false(shard_lock_remove(at, name));
  make_file(file);
  assert_int_equal(ask(&one, 'j'), 1);
  assert_true(is_held(file));
  assert_false(shard_lock_remove(at, name));
  assert_int_equal(ask(&one, 'm'), 0);
  assert_int_equal(ask(&one, 'c'), 0);
  assert_false(shard_lock_remove(at, name));
  assert_true(is_there());
  assert_int_equal(ask(&one, 'u'), 0);
  assert_false(is_held(file));
  assert_true(is_there());
  assert_int_equal(join(true), -ENOENT); /* looking has left no lock */
  make_file(file);
  assert_true(shard_lock_remove(at, name));
  assert_false(is_there());
  assert_int_equal(shard_lock_take(file, 0, NULL, NULL, &held, err, sizeof(err)), 0);
  assert_int_equal(ask(&one, 'r'), 0); /* who makes one has it, too */
  shard_lock_release(held, file);
  assert_false(is_there());
  assert_int_equal(mkdir(file, 0700), 0);
  assert_false(shard_lock_remove(at, name));
  rmdir(file);
  assert_int_equal(symlink("elsewhere", file), 0);
  assert_false(shard_lock_remove(at, name));
  unlink(file);
  close(at);
  end_other(&one);
}

/* ---- names ---- */

static void names(void **state) {
  (void)state;
  static const struct {
    enum shard_cache_kind kind;
    const char *owner, *rest;
    uint64_t pid;
  } all[] = {
      {SHARD_CACHE_LISTING, "held", ".held.listing", 0},
      {SHARD_CACHE_LISTING, "named", ".named.listing", 0},
      {SHARD_CACHE_LISTING, "12-345-6789", ".12-345-6789.listing", 0},
      {SHARD_CACHE_LOCK, NULL, ".lock", 0},
      {SHARD_CACHE_NEW, NULL, ".new.4194304", 4194304},
      {SHARD_CACHE_PERMUTATION, NULL, ".perm", 0},
  };
  char name[SHARD_CACHE_NAME];
  struct shard_cache_owner owner;
  for (size_t i = 0; i < COUNT(all); i++) {
    shard_cache_name_print(all[i].kind, KEY, all[i].owner, all[i].pid, name);
    assert_memory_equal(name, KEY, SHARD_CACHE_KEY - 1);
    assert_string_equal(name + SHARD_CACHE_KEY - 1, all[i].rest);
    assert_int_equal(shard_cache_name_parse(name, NULL), all[i].kind);
    assert_int_equal(shard_cache_name_parse(name, &owner), all[i].kind);
    if (all[i].kind == SHARD_CACHE_LISTING) {
      assert_int_equal(owner.held, i == 0);
      assert_true(i == 2 ? owner.pid == 12 && owner.start == 345 && owner.space == 6789
                         : owner.pid == 0);
    }
    /* Something before, behind, and a KEY that is none. */
    char odd[SHARD_CACHE_NAME + 1];
    snprintf(odd, sizeof(odd), "%sx", name);
    assert_int_equal(shard_cache_name_parse(odd, NULL), SHARD_CACHE_FOREIGN);
    snprintf(odd, sizeof(odd), "0%s", name);
    assert_int_equal(shard_cache_name_parse(odd, NULL), SHARD_CACHE_FOREIGN);
    assert_int_equal(shard_cache_name_parse(name + 1, NULL), SHARD_CACHE_FOREIGN);
    name[5] = 'A';
    assert_int_equal(shard_cache_name_parse(name, NULL), SHARD_CACHE_FOREIGN);
  }
  static const char *const foreign[] = {"",
                                        "x",
                                        ".",
                                        "ranks",
                                        KEY,
                                        KEY ".",
                                        KEY "lock",
                                        KEY "xlock",
                                        KEY ".listing",
                                        KEY "..listing",
                                        KEY ".other.listing",
                                        KEY ".held",
                                        KEY ".held.listing.",
                                        KEY ".held-.listing",
                                        KEY ".given",
                                        KEY ".new",
                                        KEY ".new.",
                                        KEY ".new.1x",
                                        KEY ".new.-1",
                                        KEY ".1-2.listing",
                                        KEY ".1-2-3",
                                        KEY ".1-2-3-4.listing",
                                        KEY ".0-2-3.listing",
                                        KEY ".-1-2-3.listing",
                                        KEY ".1--2-3.listing",
                                        KEY ".+1-2-3.listing",
                                        KEY ". 1-2-3.listing",
                                        KEY ".1- 2-3.listing",
                                        KEY ".01-2-3.listing",
                                        KEY ".1-2-3.listing ",
                                        KEY ".1-2-99999999999999999999999.listing"};
  for (size_t i = 0; i < COUNT(foreign); i++) {
    if (shard_cache_name_parse(foreign[i], NULL) != SHARD_CACHE_FOREIGN) {
      fail_msg("'%s'", foreign[i]);
    }
  }
}

/* ---- what is removed ---- */

#define DAY (24L * 3600)
#define RULES                                                                                      \
  { .older_than = -1 }

/* What is told of one file; and how often. */
struct told {
  char name[SHARD_CACHE_NAME];
  int times;
};

static void tell_one(void *context, const char *name, const struct stat *st, const char *why) {
  struct told *told = context;
  snprintf(told->name, sizeof(told->name), "%s", name);
  told->times += st->st_size == 1 && *why;
}

/* Make a file of an age in seconds, below `folder`. */
static void make_aged(const char *name, int64_t age, char path[PATH_MAX]) {
  struct timespec times[2];
  snprintf(path, PATH_MAX, "%s/%s", folder, name);
  make_file(path);
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= age;
  times[1] = times[0];
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Whether a file of a name and age goes. It is told by its name, and, dry, stays. */
static bool goes(const char *name, int64_t age, struct shard_collect how) {
  char path[PATH_MAX];
  bool gone[2];
  for (int dry = 1; dry >= 0; dry--) {
    struct told told = {.times = 0};
    how.dry = dry;
    how.tell = tell_one;
    how.context = &told;
    make_aged(name, age, path);
    shard_collect(folder, &how);
    gone[dry] = told.times;
    assert_true(told.times == 0 || (told.times == 1 && strcmp(told.name, name) == 0));
    assert_int_equal(access(path, F_OK), told.times && !dry ? -1 : 0);
    unlink(path);
  }
  assert_int_equal(gone[0], gone[1]);
  return gone[0];
}

/* The name of a listing of a process; `later`: by its start and its PID namespace another one's. */
static const char *listing_of(pid_t pid, unsigned long long start, int later, int apart) {
  static char name[SHARD_CACHE_NAME];
  char owner[SHARD_CACHE_NAME / 2];
  struct stat st;
  assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
  snprintf(owner, sizeof(owner), "%d-%llu-%llu", (int)pid, start + (unsigned)later,
           (unsigned long long)st.st_ino + (unsigned)apart);
  shard_cache_name_print(SHARD_CACHE_LISTING, KEY, owner, 0, name);
  return name;
}

static const int64_t ages[] = {0, DAY - 60, DAY + 60, 30 * DAY - 60, 30 * DAY + 60, 90 * DAY};

/* Of a process: it goes with it, at once; of one that is not to be seen, after a month. */
static void of_processes(void **state) {
  (void)state;
  struct shard_process self, dead;
  assert_true(shard_process_read(getpid(), &self));
  struct other other = start_other();
  assert_true(shard_process_read(other.pid, &dead));
  for (size_t i = 0; i < COUNT(ages); i++) {
    assert_false(
        goes(listing_of(other.pid, dead.start, 0, 0), ages[i], (struct shard_collect)RULES));
  }
  end_other(&other);
  for (size_t i = 0; i < COUNT(ages); i++) {
    bool month = ages[i] >= 30 * DAY;
    const struct shard_collect rules = RULES;
    assert_false(goes(listing_of(getpid(), self.start, 0, 0), ages[i], rules));
    assert_true(goes(listing_of(getpid(), self.start, 1, 0), ages[i], rules));
    assert_true(goes(listing_of(other.pid, dead.start, 0, 0), ages[i], rules));
    assert_int_equal(goes(listing_of(other.pid, dead.start, 0, 1), ages[i], rules), month);
    assert_int_equal(goes(listing_of(getpid(), self.start, 0, 1), ages[i], rules), month);
  }
}

/* What no process tells goes by its age; what is not libshard's stays. */
static void of_ages(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t age; /* from which on it goes; -1: it never does */
  } all[] = {
      {KEY ".held.listing", 0},
      {KEY ".named.listing", 30 * DAY},
      {KEY ".given.listing", -1},
      {KEY ".new.1", 0},
      {KEY ".new.1.copy", 0},
      {KEY ".perm", DAY},
      {KEY ".other.listing", -1},
      {"name.listing", -1},
      {KEY, -1},
      {".lock", -1},
  };
  for (size_t i = 0; i < COUNT(all); i++) {
    for (size_t k = 0; k < COUNT(ages); k++) {
      bool due = all[i].age >= 0 && ages[k] >= all[i].age;
      if (goes(all[i].name, ages[k], (struct shard_collect)RULES) != due) {
        fail_msg("'%s', %lld s old, should %s", all[i].name, (long long)ages[k],
                 due ? "go" : "stay");
      }
    }
  }
}

/* All of an age, whosever they are. */
static void older_than(void **state) {
  (void)state;
  struct shard_process self;
  assert_true(shard_process_read(getpid(), &self));
  char living[SHARD_CACHE_NAME];
  strcpy(living, listing_of(getpid(), self.start, 0, 0));
  const char *const all[] = {living,        KEY ".held.listing", KEY ".named.listing",
                             KEY ".perm",   KEY ".new.1",        KEY,
                             "name.listing"};
  const int64_t limits[] = {0, DAY, 7 * DAY};
  for (size_t i = 0; i < COUNT(all); i++) {
    bool foreign = i > 4;
    for (size_t k = 0; k < COUNT(limits); k++) {
      const struct shard_collect how = {.older_than = limits[k]};
      for (int more = -60; more <= 60; more += 120) {
        bool due = !foreign && more > 0;
        if (limits[k] + more >= 0 && goes(all[i], limits[k] + more, how) != due) {
          fail_msg("'%s', %lld s old", all[i], (long long)(limits[k] + more));
        }
      }
    }
  }
}

/* What a process has stays, whatever its name and age; and so does what is no file. */
static void in_use(void **state) {
  (void)state;
  struct other one = start_other();
  struct shard_process self;
  assert_true(shard_process_read(getpid(), &self));
  char gone[SHARD_CACHE_NAME], path[PATH_MAX], own[PATH_MAX];
  strcpy(gone, listing_of(getpid(), self.start, 1, 0));
  strcpy(own, file);
  const char *const all[] = {gone, KEY ".held.listing", KEY ".named.listing", KEY ".lock",
                             KEY ".perm"};
  end_other(&one);
  for (size_t i = 0; i < COUNT(all); i++) {
    for (int64_t older = -1; older <= 0; older++) {
      const struct shard_collect how = {.older_than = older};
      make_aged(all[i], 90 * DAY, path);
      strcpy(file, path); /* what another process joins */
      one = start_other();
      assert_int_equal(ask(&one, 'j'), 1);
      assert_int_equal(ask(&one, 'm'), 0);
      assert_int_equal(ask(&one, 'c'), 0);
      shard_collect(folder, &how);
      assert_true(is_there());
      assert_int_equal(ask(&one, 'u'), 0);
      end_other(&one);
      shard_collect(folder, &how);
      assert_false(is_there());
      for (int link = 0; link < 2; link++) {
        assert_int_equal(link ? symlink("elsewhere", file) : mkdir(file, 0700), 0);
        const struct timespec old[2] = {{1, 0}, {1, 0}};
        assert_int_equal(utimensat(AT_FDCWD, file, old, AT_SYMLINK_NOFOLLOW), 0);
        shard_collect(folder, &how);
        assert_int_equal(remove(file), 0);
      }
    }
  }
  strcpy(file, own);
  /* Another user's, even if it could be removed. */
  make_aged(KEY ".held.listing", 90 * DAY, path);
  if (geteuid() == 0) {
    assert_int_equal(chown(path, 65534, -1), 0);
    shard_collect(folder, &(struct shard_collect)RULES);
    assert_int_equal(access(path, F_OK), 0);
  }
  unlink(path);
  shard_collect("/nonexistent", &(struct shard_collect)RULES);
}

/* What is being made stays while its KEY's lock is held; then both go. */
static void unfinished(void **state) {
  (void)state;
  char made[PATH_MAX], own[PATH_MAX];
  int held;
  snprintf(own, sizeof(own), "%s/" KEY ".lock", folder);
  make_aged(KEY ".new.1", 90 * DAY, made);
  assert_int_equal(shard_lock_take(own, 0, NULL, NULL, &held, err, sizeof(err)), 0);
  for (int64_t older = -1; older <= 0; older++) {
    shard_collect(folder, &(struct shard_collect){.older_than = older});
    assert_true(access(made, F_OK) == 0 && access(own, F_OK) == 0);
  }
  shard_lock_release(held, NULL);
  shard_collect(folder, &(struct shard_collect)RULES);
  assert_true(access(made, F_OK) != 0 && access(own, F_OK) != 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unfinished),
      cmocka_unit_test(kept),
      cmocka_unit_test(damaged),
      cmocka_unit_test(others),
      cmocka_unit_test(late),
      cmocka_unit_test(readable),
      cmocka_unit_test(removed),
      cmocka_unit_test(inherited),
      cmocka_unit_test(shared),
      cmocka_unit_test(mapped),
      cmocka_unit_test(removed_meanwhile),
      cmocka_unit_test(races),
      cmocka_unit_test(removable),
      cmocka_unit_test(names),
      cmocka_unit_test(of_processes),
      cmocka_unit_test(of_ages),
      cmocka_unit_test(older_than),
      cmocka_unit_test(in_use),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
