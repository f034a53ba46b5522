/* SPDX-License-Identifier: MIT */
/* Several threads take a directory's entries: every name once, or -EAGAIN. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build/intake.h"
#include "libshard.h"
#include "source/walk.h"
#include "unit.h"

#define MANY 6000

/* A kernel whose files have times of a clock that ticks so often; newer ones tell two changes apart
 * by nanoseconds. 0: as it is. */
static long tick;

int fstat(int fd, struct stat *st) {
  int rc = fstatat(fd, "", st, AT_EMPTY_PATH);
  if (rc == 0 && tick) {
    st->st_mtim.tv_nsec -= st->st_mtim.tv_nsec % tick;
    st->st_ctim.tv_nsec -= st->st_ctim.tv_nsec % tick;
  }
  return rc;
}

int statx(int fd, const char *path, int flags, unsigned mask, struct statx *st) {
  int rc = (int)syscall(SYS_statx, fd, path, flags, mask, st);
  if (rc == 0 && tick) {
    st->stx_mtime.tv_nsec -= (uint32_t)(st->stx_mtime.tv_nsec % tick);
    st->stx_ctime.tv_nsec -= (uint32_t)(st->stx_ctime.tv_nsec % tick);
  }
  return rc;
}

struct found {
  pthread_mutex_t mutex;
  const char *folder;
  unsigned times[MANY];
  size_t entries[SHARD_INTAKE_HANDS], directories, readers;
  bool add;      /* a file more comes once the first entry has been read */
  bool put_back; /* and then the directory has the mtime that it had */
};

static void name_of(size_t i, const char *folder, char *file, size_t size) {
  snprintf(file, size, "%s/%0100zu", folder, i);
}

struct one {
  struct found *found;
  size_t number;
};

static int on_entry(void *context, const char *path, size_t length) {
  struct one *one = context;
  struct found *f = one->found;
  assert_int_equal(length, strlen(path));
  pthread_mutex_lock(&f->mutex);
  bool first = f->entries[one->number]++ == 0;
  f->times[strtoul(path, NULL, 10)]++;
  f->readers += first;
  if (first && f->add) {
    char file[400];
    struct stat st;
    assert_int_equal(stat(f->folder, &st), 0);
    name_of(MANY - 1, f->folder, file, sizeof(file));
    close(open(file, O_CREAT | O_WRONLY, 0600));
    const struct timespec times[] = {st.st_atim, st.st_mtim};
    assert_true(!f->put_back || utimensat(AT_FDCWD, f->folder, times, 0) == 0);
  }
  pthread_mutex_unlock(&f->mutex);
  return 0;
}

static int on_directory(void *context, const struct shard_dir *id, const char *path) {
  struct one *one = context;
  struct stat st;
  if (one->found->add) {
    return 0; /* the walk should have failed */
  }
  assert_int_equal(stat(one->found->folder, &st), 0);
  assert_int_equal(id->ino, st.st_ino);
  assert_int_equal(id->mtime_nsec, st.st_mtim.tv_nsec);
  assert_int_equal(id->ctime_nsec, st.st_ctim.tv_nsec);
  assert_int_equal(id->image, 0);
  assert_string_equal(path, "");
  one->found->directories++;
  return 0;
}

/* In place of the intake's own: what a hand calls its intake is a struct one, or a length. */
static bool deep;
static int on_deep(void *context, const char *path, size_t length);

int shard_intake_add_entry(struct shard_intake_hand *hand, const char *path, size_t length,
                           uint64_t ino, uint8_t type) {
  (void)ino, (void)type;
  return (deep ? on_deep : on_entry)(hand->intake, path, length);
}

int shard_intake_add_other(struct shard_intake_hand *hand, const char *path, size_t length,
                           uint64_t ino, uint8_t type) {
  return shard_intake_add_entry(hand, path, length, ino, type);
}

int shard_intake_add_directory(struct shard_intake_hand *hand, const struct shard_dir *id,
                               const char *path) {
  return deep ? 0 : on_directory(hand->intake, id, path);
}

static int walk(struct found *f) {
  struct one ones[SHARD_INTAKE_HANDS];
  struct shard_options options = {.hidden = true};
  struct shard_intake intake = {.options = &options};
  char err[600] = "";
  pthread_mutex_init(&f->mutex, NULL);
  for (size_t i = 0; i < SHARD_INTAKE_HANDS; i++) {
    ones[i] = (struct one){f, i};
    intake.hands[i].intake = (struct shard_intake *)&ones[i];
  }
  int rc = shard_walk(f->folder, &intake, SHARD_WALK_THREADS, err, sizeof(err));
  pthread_mutex_destroy(&f->mutex);
  return rc;
}

/* All names of a walk that went well, once. */
static void assert_whole(const struct found *f, size_t count) {
  for (size_t i = 0; i < count; i++) {
    assert_int_equal(f->times[i], 1);
  }
  assert_int_equal(f->directories, 1);
}

static void make(char *folder, size_t count) {
  char first[400], file[400];
  assert_non_null(mkdtemp(folder));
  name_of(0, folder, first, sizeof(first));
  int fd = count ? open(first, O_CREAT | O_WRONLY, 0600) : -1;
  assert_true(count == 0 || fd >= 0);
  if (fd >= 0) {
    close(fd);
  }
  for (size_t i = 1; i < count; i++) {
    name_of(i, folder, file, sizeof(file));
    assert_int_equal(link(first, file), 0);
  }
}

static void discard(const char *folder) {
  char file[400];
  for (size_t i = 0; i < MANY; i++) {
    name_of(i, folder, file, sizeof(file));
    unlink(file);
  }
  assert_int_equal(rmdir(folder), 0);
}

/* A directory that one thread reads: of a long one another thread may take some entries. */
static void by_one(void **state) {
  (void)state;
  char memory[] = "/dev/shm/test_walk-XXXXXX", few[] = "/var/tmp/test_walk-XXXXXX";
  make(memory, MANY);
  make(few, 20);
  struct found f = {.folder = memory};
  for (int k = 0; k < 20; k++) {
    f = (struct found){.folder = memory};
    assert_int_equal(walk(&f), 0);
    assert_whole(&f, MANY);
  }
  f = (struct found){.folder = few};
  assert_int_equal(walk(&f), 0);
  assert_whole(&f, 20);
  assert_int_equal(f.readers, 1);
  discard(memory);
  discard(few);
}

/* Where times are coarse, a directory that has just changed may change once more and have the same
 * time: it is listed after that. */
static void within_a_tick(void **state) {
  (void)state;
  tick = 10000000;
  for (int k = 0; k < 10; k++) {
    char folder[] = "/var/tmp/test_walk-XXXXXX";
    make(folder, 3);
    struct found f = {.folder = folder, .add = true, .put_back = k % 2 == 0};
    assert_int_equal(walk(&f), -EAGAIN);
    discard(folder);
  }
  tick = 0;
}

static int on_deep(void *context, const char *path, size_t length) {
  assert_int_equal(length, strlen(path));
  *(size_t *)context = length;
  return 0;
}

/* The longest path, and one that is longer: a file in a directory whose own path is the longest. */
static void longest(void **state) {
  (void)state;
  enum { LEVELS = SHARD_NAME_MAX / (NAME_MAX + 1) };
  char folder[] = "/var/tmp/test_walk-XXXXXX", name[NAME_MAX + 1];
  int fds[LEVELS + 1];
  size_t length = 0;
  memset(name, 'd', NAME_MAX);
  name[NAME_MAX] = 0;
  assert_non_null(mkdtemp(folder));
  fds[0] = open(folder, O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < LEVELS; i++) {
    assert_int_equal(mkdirat(fds[i], name, 0700), 0);
    fds[i + 1] = openat(fds[i], name, O_RDONLY | O_DIRECTORY);
    assert_true(fds[i + 1] >= 0);
  }
  name[0] = 'f';
  close(openat(fds[LEVELS - 1], name, O_CREAT | O_WRONLY, 0600));
  struct shard_options options = {.hidden = true};
  struct shard_intake intake = {.options = &options};
  char err[600] = "";
  intake.hands[0].intake = (struct shard_intake *)&length;
  deep = true;
  assert_int_equal(shard_walk(folder, &intake, 1, err, sizeof(err)), 0);
  assert_int_equal(length, SHARD_NAME_MAX - 1);
  close(openat(fds[LEVELS], "g", O_CREAT | O_WRONLY, 0600));
  assert_int_equal(shard_walk(folder, &intake, 1, err, sizeof(err)), -ENAMETOOLONG);
  assert_non_null(strstr(err, "below 'dddd"));
  unlinkat(fds[LEVELS], "g", 0);
  unlinkat(fds[LEVELS - 1], name, 0);
  name[0] = 'd';
  for (int i = LEVELS; i >= 0; i--) {
    close(fds[i]);
    assert_int_equal(i > 0 ? unlinkat(fds[i - 1], name, AT_REMOVEDIR) : rmdir(folder), 0);
  }
}

/* Let stat(2) of what a link leads to fail, in this process. */
static bool forbid_following(int error) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])), /* flags */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = COUNT(filter), .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* What a link leads to cannot be told: that is no file, but an error. Where it leads nowhere, or
 * where nobody may go, it is one. */
static void untold(void **state) {
  (void)state;
  static const int errors[] = {ESTALE, EIO, ENOMEM, EACCES, ENOENT};
  char folder[] = "/tmp/shard-unit-walk.XXXXXX", link[64];
  assert_non_null(mkdtemp(folder));
  snprintf(link, sizeof(link), "%s/link", folder);
  assert_int_equal(symlink("/usr", link), 0);
  for (size_t i = 0; i < COUNT(errors); i++) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
      size_t length = 0;
      struct shard_options options = {.hidden = true};
      struct shard_intake intake = {.options = &options};
      char err[600] = "";
      intake.hands[0].intake = (struct shard_intake *)&length;
      deep = true;
      if (!forbid_following(errors[i])) {
        _exit(77);
      }
      int rc = shard_walk(folder, &intake, 1, err, sizeof(err));
      bool told = rc == -errors[i] && strstr(err, "'link' is a directory");
      _exit(i < 3 ? !told : rc != 0 || length != 4);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
      print_message("skip: seccomp is not allowed\n");
      break;
    }
    assert_int_equal(status, 0);
  }
  unlink(link);
  rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(by_one),
      cmocka_unit_test(within_a_tick),
      cmocka_unit_test(longest),
      cmocka_unit_test(untold),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
