/* SPDX-License-Identifier: MIT */
/*
 * closed DIR FAULT...: lists DIR in several ways, each in a fresh process, without a fault and with
 * it. A way must list the same with the fault, or fail; else a line tells, and the status is 1.
 * What opendir lists without a fault is printed.
 *
 *   memory             each single allocation of the process fails, and all from it on
 *   ERRNO CALL...      the kernel answers ERRNO (a number) to these system calls, by seccomp; none:
 *                      no fault, and only ways that need not enter DIR
 *
 * Status 77: seccomp is not allowed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM 65536
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- memory ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

static long at, made; /* the allocation to fail, counted from 1; 0: none */
static bool on;

static bool starves(void) {
  bool now = at > 0 && ++made >= at && (on || made == at);
  if (now) {
    errno = ENOMEM;
  }
  return now;
}

void *malloc(size_t size) { return starves() ? NULL : __libc_malloc(size); }
void *calloc(size_t n, size_t size) { return starves() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t size) { return starves() ? NULL : __libc_realloc(p, size); }

/* ---- what was listed: an error, or the names of files ---- */

static struct listed {
  int error; /* an errno */
  size_t used;
  char names[ROOM]; /* each with a NUL, sorted */
} * listed;

static const char *dir;

/* Files begin with an f; so a way need not stat, which the fault may forbid. */
static void add(const char *name) {
  size_t n = strlen(name) + 1, i = 0;
  if (*name != 'f') {
    return;
  }
  if (listed->used + n > ROOM) {
    _exit(4);
  }
  while (i < listed->used && strcmp(listed->names + i, name) < 0) {
    i += strlen(listed->names + i) + 1;
  }
  memmove(listed->names + i + n, listed->names + i, listed->used - i);
  memcpy(listed->names + i, name, n);
  listed->used += n;
}

static int by_opendir(void) {
  DIR *d = opendir(dir);
  if (!d) {
    return errno;
  }
  const struct dirent *e;
  for (errno = 0; (e = readdir(d)); errno = 0) {
    add(e->d_name);
  }
  return errno;
}

static int by_getdents(void) {
  char buf[1024] __attribute__((aligned(8)));
  int fd = open(dir, O_RDONLY | O_DIRECTORY);
  ssize_t n;
  while ((n = getdents64(fd, buf, sizeof(buf))) > 0) {
    for (ssize_t i = 0; i < n; i += ((struct dirent64 *)(buf + i))->d_reclen) {
      add(((struct dirent64 *)(buf + i))->d_name);
    }
  }
  return n < 0 ? errno : 0;
}

static int by_scandir(void) {
  struct dirent **list;
  int n = scandir(dir, &list, NULL, NULL);
  for (int i = 0; i < n; i++) {
    add(list[i]->d_name);
  }
  return n < 0 ? errno : 0;
}

static int by_glob(void) {
  char pattern[4096];
  glob_t found;
  snprintf(pattern, sizeof(pattern), "%s/f*", dir);
  int rc = glob(pattern, GLOB_NOSORT, NULL, &found);
  for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
    add(strrchr(found.gl_pathv[i], '/') + 1);
  }
  return rc == 0 || rc == GLOB_NOMATCH ? 0 : rc == GLOB_NOSPACE ? ENOMEM : EIO;
}

static bool unread; /* a walker has said of a directory that it cannot be read */

static int visit(const char *path, const struct stat *st, int code, struct FTW *ftw) {
  (void)st;
  unread |= code == FTW_DNR;
  add(path + ftw->base);
  return 0;
}

static int by_nftw(void) {
  int rc = nftw(dir, visit, 10, FTW_PHYS);
  return rc != 0 ? errno : unread ? EACCES : 0;
}

static int by_fts(void) {
  char *paths[] = {(char *)dir, NULL};
  FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
  const FTSENT *e;
  if (!fts) {
    return errno;
  }
  for (errno = 0; (e = fts_read(fts)); errno = 0) {
    unread |= e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS;
    add(e->fts_name);
  }
  return errno ? errno : unread ? EACCES : 0;
}

static const struct {
  const char *name;
  int (*list)(void);
} ways[] = {{"opendir", by_opendir}, {"getdents64", by_getdents}, {"scandir", by_scandir},
            {"glob", by_glob},       {"nftw", by_nftw},           {"fts", by_fts}};

/* ---- faults ---- */

static const struct {
  const char *name;
  unsigned number;
} calls[] = {
    {"statx", SYS_statx},       {"newfstatat", SYS_newfstatat},
    {"fstat", SYS_fstat},       {"readlinkat", SYS_readlinkat},
#ifdef SYS_readlink
    {"readlink", SYS_readlink},
#endif
};

static void forbid(int error, char **names) {
  for (; *names; names++) {
    unsigned number = ~0U;
    for (size_t i = 0; i < COUNT(calls); i++) {
      number = strcmp(calls[i].name, *names) == 0 ? calls[i].number : number;
    }
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = COUNT(filter), .filter = filter};
    if (number != ~0U && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                          prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)) {
      _exit(77);
    }
  }
}

/* List in a child, twice: the second time must do as well. Returns how many allocations it made. */
static long list(size_t way, long fail_at, bool fail_on, int error, char **forbidden,
                 struct listed *out) {
  int pipes[2], status;
  static struct listed empty;
  if (pipe(pipes) != 0) {
    exit(2);
  }
  pid_t pid = fork();
  if (pid == 0) {
    static struct listed mine;
    listed = &mine;
    forbid(error, forbidden);
    for (int i = 0; i < 2; i++) {
      mine.used = 0;
      unread = false;
      made = 0;
      at = i == 0 && fail_at > 0 ? fail_at : 1L << 40;
      on = fail_on;
      mine.error = ways[way].list();
      long n = made;
      at = 0;
      if (write(pipes[1], &mine, sizeof(mine)) != sizeof(mine) ||
          write(pipes[1], &n, sizeof(n)) != sizeof(n)) {
        _exit(2);
      }
    }
    _exit(0);
  }
  close(pipes[1]);
  FILE *in = fdopen(pipes[0], "r");
  long n[2] = {0};
  bool whole = in;
  for (int i = 0; i < 2; i++) {
    out[i] = empty;
    whole =
        whole && fread(&out[i], sizeof(*out), 1, in) == 1 && fread(&n[i], sizeof(n[i]), 1, in) == 1;
  }
  fclose(in);
  waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    exit(77);
  }
  if (!whole || status != 0) {
    printf("%s, allocation %ld: the process ended with %#x\n", ways[way].name, fail_at,
           (unsigned)status);
    exit(1);
  }
  return n[0];
}

static struct listed good[2], got[2];

static bool is_right(const struct listed *l) {
  return l->error != 0 || (l->used == good->used && memcmp(l->names, good->names, l->used) == 0);
}

static int judge(size_t way, long fail_at) {
  int bad = 0;
  for (int i = 0; i < 2; i++) {
    if (!is_right(&got[i])) {
      printf("%s, allocation %ld, call %d: other files, and no error\n", ways[way].name, fail_at,
             i + 1);
      bad = 1;
    }
  }
  return bad;
}

int main(int argc, char **argv) {
  static char *none[] = {NULL};
  int bad = 0, worked = 0;
  if (argc < 3) {
    return 2;
  }
  dir = argv[1];
  bool memory = strcmp(argv[2], "memory") == 0, of_libc = memory;
  for (int i = 3; i < argc; i++) {
    of_libc |= strcmp(argv[i], "newfstatat") == 0; /* its opendir calls that */
  }
  for (size_t way = 0; way < (argc == 3 && !memory ? 3 : COUNT(ways)); way++) {
    if (of_libc && ways[way].list == by_glob) {
      continue; /* that of libc takes its own failures for no match */
    }
    long most = list(way, 0, false, 0, none, good);
    if (good->error != 0 || good->used == 0) {
      printf("%s, no fault: %zu bytes, %s\n", ways[way].name, good->used, strerror(good->error));
      return 1;
    }
    if (!memory) {
      list(way, 0, false, atoi(argv[2]), argv + 3, got);
      bad |= judge(way, 0);
      worked += got[0].error == 0;
      continue;
    }
    for (long n = 1; n <= most; n++) {
      for (int further = 0; further < 2; further++) {
        list(way, n, further, 0, none, got);
        bad |= judge(way, n);
        if (got[1].error != 0) {
          printf("%s, allocation %ld: the next call fails, too: %s\n", ways[way].name, n,
                 strerror(got[1].error));
          bad = 1;
        }
      }
    }
  }
  list(0, 0, false, 0, none, good);
  fprintf(stderr, "%d ways listed under the fault\n", worked);
  for (size_t i = 0; i < good->used; i += strlen(good->names + i) + 1) {
    puts(good->names + i);
  }
  return bad;
}
