/* SPDX-License-Identifier: MIT */
/*
 * patterns MODE: scandir, glob and wordexp in the current directory, in all the ways a
 * program may call them; prints what the program sees of each call, one escaped item a line. The
 * modes are the names of the functions at the end.
 *
 * patterns list scandir|glob|oldglob|wordexp ARG: only the names, each followed by NUL.
 *
 * patterns refused ARG...: a line for each that wordexp expands all the same.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wordexp.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define UNTOUCHED 4242

int old_glob(const char *, int, int (*)(const char *, int), glob_t *);
#if defined(__x86_64__)
__asm__(".symver old_glob, glob@GLIBC_2.2.5");
#else
__asm__(".symver old_glob, glob@GLIBC_2.17");
#endif

__attribute__((noreturn)) static void die(const char *what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

static void show(const char *s) {
  for (; s && *s; s++) {
    if (isprint((unsigned char)*s) && *s != '\\') {
      putchar(*s);
    } else {
      printf("\\%03o", (unsigned char)*s);
    }
  }
  puts(s ? "|" : "(null)");
}

static int open_descriptors(void) {
  int n = 0;
  for (int fd = 0; fd < 256; fd++) {
    n += fcntl(fd, F_GETFD) >= 0;
  }
  return n;
}

/* So that unreadable directories are. */
static void drop_privileges(void) {
  if (getuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
    die("setresuid");
  }
}

/* ---- scandir ------------------------------------------------------------------------------- */

static int with_a(const struct dirent *e) {
  errno = EIO; /* a selector may do so */
  return strchr(e->d_name, 'a') != NULL;
}
static int none(const struct dirent *e) { return e == NULL; }
static int backwards(const struct dirent **a, const struct dirent **b) {
  errno = EIO;
  return strcmp((*b)->d_name, (*a)->d_name);
}

typedef int selector(const struct dirent *);
typedef int comparer(const struct dirent **, const struct dirent **);

static int call_scan(int which, int at, const char *name, struct dirent ***list, selector *s,
                     comparer *c) {
  typedef int (*selector64)(const struct dirent64 *);
  typedef int (*comparer64)(const struct dirent64 **, const struct dirent64 **);
  switch (which) {
  case 0:
    return scandir(name, list, s, c);
  case 1:
    return scandir64(name, (struct dirent64 ***)list, (selector64)s, (comparer64)c);
  case 2:
    return scandirat(at, name, list, s, c);
  default:
    return scandirat64(at, name, (struct dirent64 ***)list, (selector64)s, (comparer64)c);
  }
}

static void show_scan(int which, int at, const char *name, selector *s, comparer *c) {
  struct dirent **list = (struct dirent **)&list;
  errno = UNTOUCHED;
  int n = call_scan(which, at, name, &list, s, c);
  printf("scan %d: %d errno %d %s\n", which, n, errno,
         n < 0 && list != (struct dirent **)&list ? "list changed" : "");
  for (int i = 0; i < n; i++) {
    printf("  %d %d ", list[i]->d_type, list[i]->d_reclen);
    show(list[i]->d_name);
    char *copy = malloc(list[i]->d_reclen); /* all of it is there */
    free(memcpy(copy, list[i], list[i]->d_reclen));
    free(list[i]);
  }
  if (n >= 0) {
    free(list);
  }
}

static const char *const directories[] = {
    ".",        "sub",    "sub/",    "./sub/../sub",  "empty",      "link_to_sub",
    "dangling", "loop",   "missing", "missing/x",     "a.txt",      "a.txt/",
    "",         "noread", "noexec",  "/proc/self/ns", "/proc/self", "dir with blank",
    "many",
};

static void mode_scandir(void) {
  drop_privileges();
  int before = open_descriptors();
  int here = open(".", O_RDONLY | O_DIRECTORY), file = open("a.txt", O_RDONLY);
  int at[] = {AT_FDCWD, here, file, -1, 999};
  comparer *compare[] = {NULL, alphasort, versionsort, backwards};
  selector *select[] = {NULL, with_a, none};
  for (size_t d = 0; d < COUNT(directories); d++) {
    printf("%s\n", directories[d]);
    for (int which = 0; which < 4; which++) {
      for (size_t a = 0; a < (which < 2 ? 1 : COUNT(at)); a++) {
        for (size_t c = 0; c < COUNT(compare); c++) {
          for (size_t s = 0; s < COUNT(select); s++) {
            if (strcmp(directories[d], "/proc/self") != 0 || s > 1) {
              show_scan(which, at[a], directories[d], select[s], compare[c]);
            }
          }
        }
      }
    }
  }
  close(here);
  close(file);
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 3;
  setrlimit(RLIMIT_NOFILE, &limit);
  for (int which = 0; which < 4; which++) {
    show_scan(which, AT_FDCWD, ".", NULL, NULL);
  }
  printf("descriptors %d\n", open_descriptors() - before);
}

/* ---- glob -------------------------------------------------------------------------------------
 */

static const char *const patterns[] = {
    "*",
    "*.txt",
    "a.txt",
    "?.txt",
    "[ab].txt",
    "[!ab].txt",
    ".*",
    "[.]*",
    "?*",
    "*/",
    "*/*",
    "*/*.txt",
    "*/*/*",
    "sub/*",
    "sub/*.txt",
    "./sub/*",
    ".//sub//*",
    "../*/sub/*",
    "s*b/x.txt",
    "s*b/missing",
    "s*b/../*.txt",
    "*/../a.txt",
    "empty/*",
    "empty/",
    "missing",
    "missing/*",
    "missing/x",
    "a.txt/*",
    "a.txt/",
    "dangling",
    "dangl*",
    "dangling/*",
    "loop",
    "loo*",
    "loop/*",
    "link_to_sub/*",
    "link_*/*",
    "link_to_s*",
    "noread/*",
    "noread",
    "noread/x",
    "*/x*",
    "noexec/*",
    "no*/*",
    "no*/x",
    "\\*",
    "\\*star",
    "*\\*",
    "[[]x]",
    "[",
    "[a",
    "a[",
    "*[",
    "back\\\\slash",
    "back\\slash",
    "*\\\\*",
    "\\a.txt",
    "a.txt\\",
    "{a,b}.txt",
    "{a,b}*",
    "{sub,many}/*1*",
    "{x,y}z*",
    "{a,{b,c}}.txt",
    "{a",
    "a}",
    "{}",
    "{a,b",
    "{missing,gone}",
    "{missing,gone}*",
    "{missing,a}.txt",
    "{a,a}*.txt",
    "{*.txt,s*}",
    "\\{a,b\\}",
    "~",
    "~/",
    "~/*",
    "~/*.txt",
    "~x",
    "~nosuchuser/*",
    "~root/x",
    "~tilde",
    "\\~*",
    "/dev/",
    "/e*c",
    "/dev/nul*",
    "//dev/nul*",
    "",
    "*.none",
    "*[",
    "**",
    "**/*",
    "*e*",
    "[[:alpha:]].txt",
    "[^a]*.txt",
    "with*",
    "with blank",
    "*\n*",
    "*\377*",
    "\377*",
    "\303*",
    "many/f*9",
    "many/*",
    "*\x01*",
    "fifo",
    "f[i]fo",
    "*/.",
    "*/..",
    ".*/",
    ".[!.]*",
    "sub/.*",
    "dir with blank/*",
    "dir*/*side*",
    "nnnn*",
    "sub/sub2/*",
    "*/sub2/*",
    "s*/s*/d*",
    "-*",
    "a.txt*",
    "[a-c]*",
    "*]*",
    "sub\\/*",
    "s\\ub/*",
};

static int handler_result;
static int on_error(const char *path, int error) {
  printf("  error %d ", error);
  show(path);
  return handler_result;
}

typedef int glob_function(const char *, int, int (*)(const char *, int), glob_t *);
static int new_glob64(const char *p, int flags, int (*f)(const char *, int), glob_t *g) {
  return glob64(p, flags, f, (glob64_t *)g);
}
#if __GLIBC_PREREQ(2, 36)
static glob_function *const globs[] = {glob, old_glob, new_glob64};
#else /* older ones' old_glob misses dangling links; libshard's serves it as it is served today */
static glob_function *const globs[] = {glob, glob, new_glob64};
#endif

static void show_glob(int rc, const glob_t *g, int flags) {
  printf("  = %d errno %d count %zu offs %zu flags %x pathv %d\n", rc, errno, g->gl_pathc,
         g->gl_offs, (unsigned)g->gl_flags, g->gl_pathv != NULL);
  size_t skip = (flags & GLOB_DOOFFS) ? g->gl_offs : 0;
  for (size_t i = 0; g->gl_pathv && i < skip; i++) {
    printf("  %s\n", g->gl_pathv[i] ? "not null" : "null");
  }
  for (size_t i = 0; g->gl_pathv && i < g->gl_pathc; i++) {
    printf("  ");
    show(g->gl_pathv[skip + i]);
  }
  if (g->gl_pathv && (g->gl_pathc > 0 || skip > 0) && g->gl_pathv[skip + g->gl_pathc]) {
    puts("  not ended");
  }
}

static void try_glob(glob_function *f, const char *pattern, int flags, int handler) {
  glob_t g;
  memset(&g, 0x55, sizeof(g));
  g.gl_offs = 3;
  handler_result = handler == 2;
  errno = UNTOUCHED;
  int rc = f(pattern, flags, handler ? on_error : NULL, &g);
  show_glob(rc, &g, flags);
  /* Once more at the end, then free, then anew in the same struct. */
  if (rc == 0 || rc == GLOB_NOMATCH) {
    if (g.gl_pathv) {
      rc = f("s*b/*", flags | GLOB_APPEND, NULL, &g);
      show_glob(rc, &g, flags);
    }
    if (rc == 0 || rc == GLOB_NOMATCH) {
      globfree(&g);
    }
  }
  if (g.gl_opendir != (void *)(uintptr_t)0x5555555555555555) {
    puts("  the caller's functions were changed");
  }
}

static const int all_flags[] = {
    GLOB_ERR,    GLOB_MARK,  GLOB_NOSORT,  GLOB_DOOFFS, GLOB_NOCHECK, GLOB_NOESCAPE,
    GLOB_PERIOD, GLOB_BRACE, GLOB_NOMAGIC, GLOB_TILDE,  GLOB_ONLYDIR, GLOB_TILDE_CHECK,
};

static uint64_t seed = 1;
static unsigned draw(unsigned n) {
  seed = seed * 6364136223846793005U + 1442695040888963407U;
  return (unsigned)(seed >> 33) % n;
}

static void mode_glob(void) {
  drop_privileges();
  setlocale(LC_ALL, "");
  int before = open_descriptors();
  for (size_t p = 0; p < COUNT(patterns); p++) {
    for (size_t k = 0; k < 40; k++) {
      int flags = 0;
      if (k > 0 && k <= COUNT(all_flags)) {
        flags = all_flags[k - 1];
      } else if (k > COUNT(all_flags)) {
        for (size_t i = 0; i < COUNT(all_flags); i++) {
          flags |= draw(3) == 0 ? all_flags[i] : 0;
        }
      }
      int handler = (int)draw(3);
      for (size_t f = 0; f < COUNT(globs); f++) {
        printf("glob %zu flags %x handler %d ", f, (unsigned)flags, handler);
        show(patterns[p]);
        try_glob(globs[f], patterns[p], flags, handler);
      }
    }
  }
  for (size_t f = 0; f < COUNT(globs); f++) {
    glob_t g = {0};
    errno = 0;
    int rc = globs[f]("*", 1 << 20, NULL, &g);
    show_glob(rc, &g, 0);
  }
  printf("descriptors %d\n", open_descriptors() - before);
}

static void mode_emfile(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 3;
  setrlimit(RLIMIT_NOFILE, &limit);
  for (size_t f = 0; f < COUNT(globs); f++) {
    for (int handler = 0; handler < 3; handler++) {
      try_glob(globs[f], "*", 0, handler);
      try_glob(globs[f], "*/*", GLOB_ERR, handler);
      try_glob(globs[f], "a.txt", GLOB_ERR, handler);
    }
  }
}

/* A caller with functions of its own. */
static struct dirent made_up;
static int made_up_left;
static void *own_opendir(const char *name) {
  printf("  own opendir %s\n", name);
  made_up_left = 3;
  return &made_up;
}
static struct dirent *own_readdir(void *dir) {
  snprintf(made_up.d_name, sizeof(made_up.d_name), "made%d", made_up_left);
  made_up.d_ino = 1;
  return made_up_left-- > 0 ? dir : NULL;
}
static void own_closedir(void *dir) { printf("  own closedir %d\n", dir == &made_up); }

static void mode_own(void) {
  for (size_t f = 0; f < COUNT(globs); f++) {
    glob_t g = {.gl_opendir = own_opendir,
                .gl_readdir = own_readdir,
                .gl_closedir = own_closedir,
                .gl_stat = stat,
                .gl_lstat = lstat};
    int rc = globs[f]("m*", GLOB_ALTDIRFUNC, NULL, &g);
    show_glob(rc, &g, 0);
    globfree(&g);
    rc = globs[f]("*.txt", 0, NULL, &g); /* and then without */
    show_glob(rc, &g, 0);
    globfree(&g);
  }
}

/* ---- wordexp ----------------------------------------------------------------------------------
 */

static const char *const strings[] = {
    "*",
    "*.txt ?.txt",
    "'*'.txt \\*.txt",
    "\"with blank\"*",
    "$TWO*",
    "*$(echo .txt)",
    "~/s*/*",
    "none* a.txt",
    "dir*/*",
    "noread/* noexec/* missing/*",
    "/dev/nul*",
    "../*/sub/*",
    "*${UNSET}",
    "*\n",
    "*'",
    "a b",
};

static void set_ifs(const char *ifs) {
  if (ifs) {
    setenv("IFS", ifs, 1);
  } else {
    unsetenv("IFS");
  }
}

static void show_words(int rc, const wordexp_t *w, int flags) {
  printf("  = %d count %zu offs %zu wordv %d\n", rc, w->we_wordc, w->we_offs, w->we_wordv != NULL);
  size_t skip = (flags & WRDE_DOOFFS) ? w->we_offs : 0;
  for (size_t i = 0; w->we_wordv && i < skip; i++) {
    printf("  %s\n", w->we_wordv[i] ? "not null" : "null");
  }
  for (size_t i = 0; w->we_wordv && i < w->we_wordc; i++) {
    printf("  ");
    show(w->we_wordv[skip + i]);
  }
  if (w->we_wordv && w->we_wordv[skip + w->we_wordc]) {
    puts("  not ended");
  }
}

static void try_words(const char *words, int flags) {
  wordexp_t w = {.we_offs = 2};
  int rc = wordexp(words, &w, flags);
  fflush(stderr);
  show_words(rc, &w, flags);
  if (rc == 0 || rc == WRDE_NOSPACE) {
    wordfree(&w);
  }
}

/* Into a struct that has words. */
static void try_more_words(const char *words, int flags, int more) {
  wordexp_t w = {.we_offs = 2};
  if (wordexp("first 's*b'", &w, flags & WRDE_DOOFFS) != 0) {
    die("wordexp");
  }
  int rc = wordexp(words, &w, flags | more);
  if (rc != 0 && (more & WRDE_APPEND)) {
    printf("  = %d\n", rc); /* libc leaves a freed we_wordv */
    return;
  }
  show_words(rc, &w, flags);
  if (w.we_wordv) {
    rc = wordexp("s*", &w, (flags & WRDE_DOOFFS) | WRDE_APPEND);
    show_words(rc, &w, flags);
  }
  wordfree(&w);
}

static void mode_wordexp(void) {
  static const char *const ifs_values[] = {NULL, "", ","};
  static const int flags[] = {0, WRDE_DOOFFS, WRDE_NOCMD | WRDE_UNDEF | WRDE_SHOWERR};
  char here[4096];
  setenv("TWO", "a b", 1);
  setenv("HOME", getcwd(here, sizeof(here)) ? here : "/", 1);
  drop_privileges();
  int before = open_descriptors();
  for (size_t i = 0; i < COUNT(ifs_values); i++) {
    set_ifs(ifs_values[i]);
    for (size_t s = 0; s < COUNT(strings); s++) {
      for (size_t f = 0; f < COUNT(flags); f++) {
        printf("wordexp IFS %zu flags %x ", i, (unsigned)flags[f]);
        show(strings[s]);
        try_words(strings[s], flags[f]);
        try_more_words(strings[s], flags[f], WRDE_APPEND);
        try_more_words(strings[s], flags[f], WRDE_REUSE);
      }
    }
  }
  printf("descriptors %d\n", open_descriptors() - before);
}

/* Of the ARGs, none is expanded; what the struct had before stays. */
static int refused(char *const *words) {
  for (; *words; words++) {
    wordexp_t w = {.we_offs = 2};
    errno = 0;
    if (wordexp(*words, &w, 0) != WRDE_NOSPACE || errno != ENOTSUP || w.we_wordc != 0 ||
        *w.we_wordv) {
      printf("not refused: %s\n", *words);
    }
    wordfree(&w);
    w.we_offs = 2;
    if (wordexp("first second", &w, WRDE_DOOFFS) != 0 ||
        wordexp(*words, &w, WRDE_DOOFFS | WRDE_APPEND) != WRDE_NOSPACE || w.we_wordc != 2 ||
        w.we_wordv[4] || wordexp("third", &w, WRDE_DOOFFS | WRDE_APPEND) != 0 || w.we_wordc != 3 ||
        strcmp(w.we_wordv[2], "first") != 0 || strcmp(w.we_wordv[4], "third") != 0) {
      printf("not refused behind others: %s\n", *words);
    }
    wordfree(&w);
  }
  return 0;
}

/* ---- under the shard view ----------------------------------------------------------------------
 */

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Whether files come from listings only: a name that is given in full is there for every rank. */
static int lists(const char *pattern) {
  const char *last = strrchr(pattern, '/');
  last = last ? last + 1 : pattern;
  return *last ? last[0] != '\\' && strpbrk(last, "*?") : strchr(pattern, '*') != NULL;
}

/* What does not depend on the order of directories, without what belongs to the file system. */
static void mode_served(void) {
  static const char *const served[] = {".", "sub", "sub/sub2", "empty", "link_to_sub", "many"};
  for (size_t d = 0; d < COUNT(served); d++) {
    for (int which = 0; which < 4; which++) {
      struct dirent **list;
      int n = call_scan(which, AT_FDCWD, served[d], &list, NULL, alphasort);
      printf("scan %d %s: %d\n", which, served[d], n);
      for (int i = 0; i < n; i++) {
        show(list[i]->d_name);
        free(list[i]);
      }
      if (n >= 0) {
        free(list);
      }
    }
  }
  static const int flags[] = {0, GLOB_MARK, GLOB_PERIOD, GLOB_BRACE | GLOB_NOCHECK | GLOB_ONLYDIR,
                              GLOB_NOSORT | GLOB_TILDE | GLOB_BRACE};
  for (size_t p = 0; p < COUNT(patterns); p++) {
    if (!lists(patterns[p])) {
      continue;
    }
    for (size_t k = 0; k < COUNT(flags) * COUNT(globs); k++) {
      glob_t g;
      int rc = globs[k % 3](patterns[p], flags[k / 3], NULL, &g);
      printf("glob %zu %d %zu ", k, rc, g.gl_pathc);
      show(patterns[p]);
      if ((flags[k / 3] & GLOB_NOSORT) && g.gl_pathc > 0) {
        qsort(g.gl_pathv, g.gl_pathc, sizeof(char *), by_bytes);
      }
      for (size_t i = 0; i < g.gl_pathc; i++) {
        show(g.gl_pathv[i]);
      }
      globfree(&g);
    }
  }
}

static int listed(const struct dirent *e) {
  return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static void print_all(char *const *names, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct stat s;
    if (stat(names[i], &s) != 0 || !S_ISDIR(s.st_mode)) {
      fwrite(names[i], 1, strlen(names[i]) + 1, stdout);
    }
  }
}

/* Finds something, in no dataset. */
static int glob_elsewhere(const char *path, int error) {
  glob_t g;
  printf("error %d in %s\n", error, path);
  return glob("/pro[c]", 0, NULL, &g) == 0 ? (globfree(&g), 0) : 1;
}

static int list_names(const char *how, const char *what) {
  glob_t g = {0};
  wordexp_t w;
  if (strcmp(how, "scandir") == 0) {
    struct dirent **list;
    int n = scandir(what, &list, listed, NULL);
    for (int i = 0; i < n; i++) {
      char path[PATH_MAX];
      snprintf(path, sizeof(path), "%s/%s", what, list[i]->d_name);
      print_all((char *[]){path}, 1);
    }
    return n < 0;
  }
  if (strcmp(how, "wordexp") == 0) {
    int rc = wordexp(what, &w, 0);
    print_all(w.we_wordv, rc == 0 && strcmp(w.we_wordv[0], what) != 0 ? w.we_wordc : 0);
    return rc;
  }
  if (strcmp(how, "functions") == 0) {
    g.gl_opendir = (void *(*)(const char *))opendir;
    g.gl_readdir = (struct dirent * (*)(void *)) readdir;
    g.gl_closedir = (void (*)(void *))closedir;
    g.gl_stat = stat;
    g.gl_lstat = lstat;
    int rc = glob(what, GLOB_ALTDIRFUNC, NULL, &g);
    print_all(g.gl_pathv, g.gl_pathc);
    return rc;
  }
  int rc = (strcmp(how, "oldglob") != 0 ? glob : old_glob)(
      what, GLOB_PERIOD, strcmp(how, "within") == 0 ? glob_elsewhere : NULL, &g);
  print_all(g.gl_pathv, g.gl_pathc);
  return rc != GLOB_NOMATCH && rc != 0;
}

/* ---- threads ------------------------------------------------------------------------------------
 */

static void *expander(void *arg) {
  size_t *sum = arg;
  for (int k = 0; k < 100; k++) {
    struct dirent **list;
    glob_t g;
    wordexp_t w;
    int n = scandir(".", &list, NULL, alphasort);
    if (n < 0 || glob("*/*", 0, NULL, &g) != 0 || wordexp("*/* '*'", &w, 0) != 0) {
      die("a thread");
    }
    size_t now = (size_t)n * 1000000 + g.gl_pathc * 1000 + w.we_wordc;
    if (*sum != 0 && *sum != now) {
      die("a thread sees other names");
    }
    *sum = now;
    while (n > 0) {
      free(list[--n]);
    }
    free(list);
    globfree(&g);
    wordfree(&w);
  }
  return NULL;
}

static void mode_threads(void) {
  pthread_t t[3];
  size_t sums[3] = {0};
  for (size_t i = 0; i < 3; i++) {
    pthread_create(&t[i], NULL, expander, &sums[i]);
  }
  for (size_t i = 0; i < 3; i++) {
    pthread_join(t[i], NULL);
    printf("%zu\n", sums[i]);
  }
}

/* libc's scandir is no point where a thread is cancelled. */
static void mode_cancelled(void) {
  struct dirent **list;
  pthread_cancel(pthread_self());
  int n = scandir(".", &list, NULL, NULL);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  printf("%d\n", n);
}

static const struct {
  const char *name;
  void (*run)(void);
} modes[] = {
    {"scandir", mode_scandir}, {"glob", mode_glob},           {"emfile", mode_emfile},
    {"own", mode_own},         {"wordexp", mode_wordexp},     {"served", mode_served},
    {"threads", mode_threads}, {"cancelled", mode_cancelled},
};

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "list") == 0) {
    return list_names(argv[2], argv[3]) || fflush(stdout) != 0;
  }
  if (argc > 2 && strcmp(argv[1], "refused") == 0) {
    return refused(argv + 2);
  }
  for (size_t i = 0; argc >= 2 && i < COUNT(modes); i++) {
    if (strcmp(argv[1], modes[i].name) == 0) {
      modes[i].run();
      return fflush(stdout) != 0;
    }
  }
  fprintf(stderr, "usage: patterns MODE\n");
  return 2;
}
