/* SPDX-License-Identifier: MIT */
/*
 * trees CALL OPTIONS NUMBER SEED PATH...: walk trees by one of libc's calls and print all that it
 * tells, a line for each visit.
 *
 *   CALL     ftw ftw64 nftw nftw64 nftw_old nftw64_old fts fts64, threads, handles
 *   OPTIONS  with commas between: what the call has (phys, chdir, ...) and
 *            brief    no inodes, no sizes: lines that another copy of the tree gives, too
 *            compar   fts with a comparison
 *            nested   the callback walks by itself, and forks
 *            children call fts_children, with FTS_NAMEONLY and without, and then go on
 *            inherit  tell of descriptors that a program started now would inherit
 *            pending  the thread is to be cancelled, which libc's call puts off
 *            remove   remove what is named gone1 to gone3 while its directory is visited
 *   NUMBER   of descriptors for ftw and nftw; after so many entries fts_close (0: never)
 *   SEED     0: go on to the end; else what the callback returns, and what fts_set and
 *            fts_children are used for, is drawn from it and the path
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
extern int nftw_old(const char *, __nftw_func_t, int, int);
extern int nftw64_old(const char *, __nftw64_func_t, int, int);
__asm__(".symver nftw_old, nftw@GLIBC_2.2.5");
__asm__(".symver nftw64_old, nftw64@GLIBC_2.2.5");
#else
#define nftw_old nftw
#define nftw64_old nftw64
#endif

static const struct {
  const char *name;
  int ftw, fts;
} names[] = {
    {"phys", FTW_PHYS, FTS_PHYSICAL}, {"mount", FTW_MOUNT, FTS_XDEV},  {"chdir", FTW_CHDIR, 0},
    {"depth", FTW_DEPTH, 0},          {"action", FTW_ACTIONRETVAL, 0}, {"bad", 0x40, 0x1000},
    {"logical", 0, FTS_LOGICAL},      {"comfollow", 0, FTS_COMFOLLOW}, {"nochdir", 0, FTS_NOCHDIR},
    {"nostat", 0, FTS_NOSTAT},        {"seedot", 0, FTS_SEEDOT},
};

static int ftw_flags, fts_options, number;
static unsigned seed;
static int inherited; /* descriptors, from the start on */
static bool brief, compar, nested, removing, inherit, children, pending;

/* ---- printing --------------------------------------------------------------------------- */

static void print_name(const char *name) {
  putchar('\'');
  for (; *name; name++) {
    unsigned char c = (unsigned char)*name;
    if (c <= ' ' || c >= 127 || c == '%' || c == '\'') {
      printf("%%%02x", c);
    } else {
      putchar(c);
    }
  }
  putchar('\'');
}

static void print_stat(const struct stat *st) {
  printf(" mode %o", st->st_mode);
  if (!brief) {
    printf(" ino %lu:%lu size %ld links %lu", st->st_dev, st->st_ino, (long)st->st_size,
           st->st_nlink);
  }
}

/* By its inode: it may have no path short enough. */
static void print_cwd(void) {
  struct stat st;
  if (!brief && stat(".", &st) == 0) {
    printf(" in %lu", st.st_ino);
  }
}

static int open_descriptors(void) {
  int n = 0;
  for (int fd = 0; fd < 256; fd++) {
    n += fcntl(fd, F_GETFD) >= 0;
  }
  return n;
}

static int inherited_descriptors(void) {
  int n = 0;
  for (int fd = 0; fd < 256; fd++) {
    n += fcntl(fd, F_GETFD) == 0;
  }
  return n;
}

static unsigned draw(const char *path, int more) {
  unsigned h = seed * 2654435761U + (unsigned)more * 40503U;
  for (; *path; path++) {
    h = (h ^ (unsigned char)*path) * 16777619U;
  }
  h = (h ^ h >> 15) * 2246822519U;
  return h >> 8;
}

static void remove_some(const char *directory, size_t length) {
  char path[4200];
  for (int i = 1; i <= 3 && length < 4096; i++) {
    snprintf(path, sizeof(path), "%.*s/gone%d", (int)length, directory, i);
    if (unlink(path) != 0) {
      rmdir(path);
    }
  }
}

/* ---- ftw and nftw ----------------------------------------------------------------------- */

static _Thread_local unsigned sum; /* of a quiet walk */

static int quiet(const char *path, const struct stat *st, int code, struct FTW *ftw) {
  unsigned h = (unsigned)(code * 31 + ftw->level * 7 + ftw->base) + (unsigned)st->st_mode;
  for (; *path; path++) {
    h = (h ^ (unsigned char)*path) * 16777619U;
  }
  sum += h;
  return 0;
}

static unsigned quiet_fts(char **paths, int options) {
  unsigned h = 0;
  FTS *fts = fts_open(paths, options, NULL);
  FTSENT *e;
  while (fts && (e = fts_read(fts))) {
    h = (h ^ e->fts_info) * 31 + e->fts_level;
    for (const char *p = e->fts_path; *p; p++) {
      h = (h ^ (unsigned char)*p) * 16777619U;
    }
  }
  if (!fts || errno != 0 || fts_close(fts) != 0) {
    h = 0;
  }
  return h;
}

/* What a callback may do: walk the same tree, in a child too. */
static void walk_within(const char *path) {
  int flags = FTW_PHYS, status;
  sum = 0;
  int rc = nftw(path, quiet, 2, flags);
  printf("  within: %d, %08x\n", rc, sum);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    sum = 0;
    rc = nftw(path, quiet, 3, flags);
    printf("  child: %d, %08x\n", rc, sum);
    _exit(fflush(stdout) != 0);
  }
  waitpid(pid, &status, 0);
  printf("  status %d\n", status);
}

static int visit_n(const char *path, const struct stat *st, int code, struct FTW *ftw) {
  static const char *const text[] = {"F", "D", "DNR", "NS", "SL", "DP", "SLN"};
  int result = 0, error = errno;
  unsigned r = seed ? draw(path, code) : 0;
  printf("%s ", text[code]);
  print_name(path);
  if (ftw) {
    printf(" level %d base %d", ftw->level, ftw->base);
  }
  if (code != FTW_NS) {
    print_stat(st);
  } else {
    printf(" errno %d", error);
  }
  if (code == FTW_DNR) {
    printf(" errno %d", error);
  }
  print_cwd();
  if (seed && ftw_flags & FTW_ACTIONRETVAL) {
    static const int all[] = {FTW_SKIP_SUBTREE, FTW_SKIP_SIBLINGS, FTW_SKIP_SUBTREE, FTW_CONTINUE};
    result = r % 64 == 0 ? FTW_STOP : r % 8 == 1 ? all[r / 8 % 4] : r % 256 == 2 ? -1 : 0;
  } else if (seed && r % 32 == 0) {
    result = (int)(r / 32 % 7) - 2;
  }
  printf(" -> %d\n", result);
  if (nested && ftw && code != FTW_NS && code != FTW_DNR && code != FTW_SLN) {
    walk_within(ftw_flags & FTW_CHDIR ? "." : path);
  }
  if (inherit && inherited_descriptors() != inherited) {
    printf("  %d descriptors are inherited\n", inherited_descriptors() - inherited);
  }
  if (removing && code == FTW_D) {
    remove_some(path, strlen(path));
  } else if (removing && ftw && ftw->level > 1) {
    remove_some(path, (size_t)ftw->base - 1);
  }
  errno = result ? 4242 : error;
  return result;
}

static int visit_n64(const char *path, const struct stat64 *st, int code, struct FTW *ftw) {
  return visit_n(path, (const struct stat *)st, code, ftw);
}

static int visit(const char *path, const struct stat *st, int code) {
  return visit_n(path, st, code, NULL);
}

static int visit64(const char *path, const struct stat64 *st, int code) {
  return visit_n(path, (const struct stat *)st, code, NULL);
}

static bool run_ftw(const char *call, char **paths) {
  for (; *paths; paths++) {
    int rc, f = ftw_flags, n = number, before = open_descriptors();
    errno = 0;
    if (strcmp(call, "ftw") == 0) {
      rc = ftw(*paths, visit, n);
    } else if (strcmp(call, "ftw64") == 0) {
      rc = ftw64(*paths, visit64, n);
    } else if (strcmp(call, "nftw") == 0) {
      rc = nftw(*paths, visit_n, n, f);
    } else if (strcmp(call, "nftw64") == 0) {
      rc = nftw64(*paths, visit_n64, n, f);
    } else if (strcmp(call, "nftw_old") == 0) {
      rc = nftw_old(*paths, visit_n, n, f);
    } else if (strcmp(call, "nftw64_old") == 0) {
      rc = nftw64_old(*paths, visit_n64, n, f);
    } else {
      return false;
    }
    printf("returns %d, errno %d", rc, rc ? errno : 0);
    printf(" descriptors %+d", open_descriptors() - before);
    print_cwd();
    putchar('\n');
  }
  return true;
}

/* ---- fts -------------------------------------------------------------------------------- */

static struct {
  FTS *(*open)(char *const *, int, int (*)(const FTSENT **, const FTSENT **));
  FTSENT *(*read)(FTS *);
  FTSENT *(*children)(FTS *, int);
  int (*set)(FTS *, FTSENT *, int);
  int (*close)(FTS *);
} calls = {fts_open, fts_read, fts_children, fts_set, fts_close};

static int by_name_backwards(const FTSENT **a, const FTSENT **b) {
  return -strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool of_directory(const FTSENT *e) {
  return e->fts_info == FTS_D || e->fts_info == FTS_DC || e->fts_info == FTS_DP ||
         e->fts_info == FTS_DOT || e->fts_info == FTS_DNR;
}

static void print_entry(const FTSENT *e, bool visited) {
  static const char *const text[] = {"?",   "D", "DC",   "DEFAULT", "DNR",  "DOT", "DP",
                                     "ERR", "F", "INIT", "NS",      "NSOK", "SL",  "SLNONE"};
  printf("%s ", e->fts_info < sizeof(text) / sizeof(text[0]) ? text[e->fts_info] : "?");
  print_name(e->fts_name);
  printf(" (%u) level %d errno %d number %ld pointer %s", e->fts_namelen, e->fts_level,
         e->fts_errno, e->fts_number, e->fts_pointer ? (const char *)e->fts_pointer : "-");
  if (visited) {
    putchar(' ');
    print_name(e->fts_path);
    printf(" (%u) ", e->fts_pathlen);
    print_name(e->fts_accpath);
  }
  if (e->fts_level > 0) {
    printf(" of ");
    print_name(e->fts_parent->fts_name);
  }
  if (of_directory(e) && !brief) {
    printf(" dir %lu:%lu links %lu", e->fts_dev, e->fts_ino, e->fts_nlink);
  }
  if (e->fts_info == FTS_DC) {
    printf(" cycle ");
    print_name(e->fts_cycle->fts_name);
    printf(" level %d", e->fts_cycle->fts_level);
  }
  if (!(fts_options & FTS_NOSTAT) && e->fts_info != FTS_NSOK) {
    print_stat(e->fts_statp);
  }
  if (visited) {
    print_cwd();
  }
  putchar('\n');
}

static void print_children(FTS *fts, int instruction, unsigned r) {
  errno = 4242;
  FTSENT *list = calls.children(fts, instruction);
  printf(" children %x: %s, errno %d\n", instruction, list ? "some" : "none", errno);
  for (FTSENT *e = list; e; e = e->fts_link) {
    printf(" - ");
    print_entry(e, false);
    unsigned q = draw(e->fts_name, (int)r);
    e->fts_number = q % 100;
    if (q % 8 < 3) {
      printf("   set: %d\n", calls.set(fts, e, q % 8 == 0 ? FTS_SKIP : FTS_FOLLOW));
    }
  }
}

/* Use the entry as the seed wills. */
static void interfere(FTS *fts, FTSENT *e, int count) {
  unsigned r = draw(e->fts_path, count / 40 * 100 + e->fts_info);
  switch (r % 16) {
  case 0:
    printf(" skip: %d\n", calls.set(fts, e, FTS_SKIP));
    break;
  case 1:
    if (count < 200) {
      printf(" again: %d\n", calls.set(fts, e, FTS_AGAIN));
    }
    break;
  case 2:
  case 3:
    printf(" follow: %d\n", calls.set(fts, e, FTS_FOLLOW));
    break;
  case 4:
    print_children(fts, FTS_NAMEONLY, r);
    break;
  case 5:
    print_children(fts, FTS_NAMEONLY, r);
    print_children(fts, 0, r);
    break;
  case 6:
  case 7:
    print_children(fts, 0, r);
    break;
  case 8:
    errno = 0;
    printf(" bad: %d", calls.set(fts, e, 77));
    printf(" errno %d\n", errno);
    print_children(fts, 77, r);
    break;
  default:
    break;
  }
  e->fts_number += count;
  e->fts_pointer = r % 2 ? "odd" : "even";
}

static void run_fts(char **paths) {
  int before = open_descriptors(), count = 0;
  errno = 0;
  FTS *fts = calls.open(paths, fts_options, compar ? by_name_backwards : NULL);
  if (!fts) {
    printf("fts_open: errno %d", errno);
    printf(" descriptors %+d", open_descriptors() - before);
    print_cwd();
    putchar('\n');
    return;
  }
  if (seed % 2) {
    print_children(fts, 0, seed);
  }
  FTSENT *e;
  bool early = false;
  for (;;) {
    errno = 4242;
    e = calls.read(fts);
    if (!e) {
      break;
    }
    print_entry(e, true);
    if (seed) {
      interfere(fts, e, count);
    }
    for (int i = 0; children && e->fts_info == FTS_D && i < 2; i++) {
      print_children(fts, i == 0 ? FTS_NAMEONLY : 0, 0);
    }
    if (nested && e->fts_info == FTS_D) {
      walk_within(e->fts_accpath);
    }
    if (inherit && inherited_descriptors() != inherited) {
      printf("  %d descriptors are inherited\n", inherited_descriptors() - inherited);
    }
    if (removing && e->fts_info == FTS_D) {
      remove_some(e->fts_accpath, strlen(e->fts_accpath));
    } else if (removing && e->fts_level > 1 && !strchr(e->fts_accpath, '/')) {
      remove_some(".", 1);
    }
    if (++count == number) {
      early = true;
      break;
    }
  }
  printf("options %x, %s, errno %d\n", fts->fts_options & ~FTS_NAMEONLY, early ? "early" : "end",
         early ? 0 : errno);
  if (!early) {
    errno = 77;
    e = calls.read(fts);
    printf("again: %d errno %d\n", e != NULL, errno);
  }
  errno = 0;
  printf("fts_close: %d", calls.close(fts));
  printf(" errno %d", errno);
  if (seed == 0) { /* libc leaks some when links are followed */
    printf(" descriptors %+d", open_descriptors() - before);
  }
  print_cwd();
  putchar('\n');
}

/* ---- many at once ----------------------------------------------------------------------- */

static void *walker(void *arg) {
  char **paths = arg;
  unsigned *result = calloc(2, sizeof(unsigned));
  for (int i = 0; i < 10; i++) {
    sum = 0;
    if (nftw(paths[0], quiet, 1 + i % 4, FTW_PHYS) != 0) {
      sum = 0;
    }
    result[0] = sum;
    result[1] = quiet_fts(paths, FTS_PHYSICAL | FTS_NOCHDIR);
  }
  return result;
}

static void run_threads(char **paths) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) {
    pthread_create(&t[i], NULL, walker, paths);
  }
  for (int i = 0; i < 4; i++) {
    void *result;
    pthread_join(t[i], &result);
    printf("%08x %08x\n", ((unsigned *)result)[0], ((unsigned *)result)[1]);
    free(result);
  }
}

/* More handles than a table of them holds, each a step after the other; some closed early. */
static void run_handles(char **paths) {
  enum { MANY = 300 };
  FTS *fts[MANY];
  int options = FTS_PHYSICAL | FTS_NOCHDIR, open = MANY;
  for (int i = 0; i < MANY; i++) {
    fts[i] = fts_open(paths, options, NULL);
  }
  for (int step = 0; open > 0; step++) {
    char path[4096] = "";
    for (int i = 0; i < MANY; i++) {
      FTSENT *e = fts[i] ? fts_read(fts[i]) : NULL;
      if (e && !*path) {
        snprintf(path, sizeof(path), "%s", e->fts_path);
        print_entry(e, true);
      } else if (e && strcmp(path, e->fts_path) != 0) {
        printf("handle %d: another entry\n", i);
      }
      if (fts[i] && (!e || step == i)) {
        fts_close(fts[i]);
        fts[i] = NULL;
        open--;
      }
    }
  }
}

int main(int argc, char **argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: trees CALL OPTIONS NUMBER SEED PATH...\n");
    return 2;
  }
  for (char *o = strtok(argv[2], ","); o; o = strtok(NULL, ",")) {
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
      if (strcmp(o, names[i].name) == 0) {
        ftw_flags |= names[i].ftw;
        fts_options |= names[i].fts;
      }
    }
    brief |= strcmp(o, "brief") == 0;
    children |= strcmp(o, "children") == 0;
    compar |= strcmp(o, "compar") == 0;
    inherit |= strcmp(o, "inherit") == 0;
    nested |= strcmp(o, "nested") == 0;
    pending |= strcmp(o, "pending") == 0;
    removing |= strcmp(o, "remove") == 0;
  }
  if (pending) { /* nothing is written meanwhile, for that would be the end */
    setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    pthread_cancel(pthread_self());
  }
  inherited = inherited_descriptors();
  number = atoi(argv[3]);
  seed = (unsigned)atoi(argv[4]);
  char **paths = argv + 5;
  if (strcmp(argv[1], "fts") == 0) {
    run_fts(paths);
  } else if (strcmp(argv[1], "fts64") == 0) {
    calls.open = (typeof(calls.open))(void (*)(void))fts64_open;
    calls.read = (typeof(calls.read))(void (*)(void))fts64_read;
    calls.children = (typeof(calls.children))(void (*)(void))fts64_children;
    calls.set = (typeof(calls.set))(void (*)(void))fts64_set;
    calls.close = (typeof(calls.close))(void (*)(void))fts64_close;
    run_fts(paths);
  } else if (strcmp(argv[1], "threads") == 0) {
    run_threads(paths);
  } else if (strcmp(argv[1], "handles") == 0) {
    run_handles(paths);
  } else if (!run_ftw(argv[1], paths)) {
    fprintf(stderr, "trees: what is %s?\n", argv[1]);
    return 2;
  }
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  return fflush(stdout) != 0;
}
