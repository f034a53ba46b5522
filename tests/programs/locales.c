/* SPDX-License-Identifier: MIT */
/*
 * locales MODE DIR: setlocale(LC_ALL, ""), as many a program does at its start, and then list DIR:
 * by readdir, scandir or glob, its whole tree by fts or nftw. Prints "d NAME" of a directory and "f
 * NAME" of all else, in the order that the call has: scandir, glob and fts sort as the locale does.
 *
 *   number   print 1.5, and whether "TIFF" is "tiff" but for the case
 *   open     open the files of DIR, without a word
 *   run      watch for names in .tiff, open those of DIR, print how many were counted
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t root; /* length of DIR and a slash */

static void print(const char *path, int directory) {
  if (strlen(path) > root) {
    printf("%c %s\n", directory ? 'd' : 'f', path + root);
  }
}

static void print_any(const char *path) {
  struct stat st;
  print(path, stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

static int print_walked(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st, (void)at;
  print(path, kind == FTW_D);
  return 0;
}

static int in_order(const FTSENT **a, const FTSENT **b) {
  return strcoll((*a)->fts_name, (*b)->fts_name);
}

static int no_dots(const struct dirent *d) {
  return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int list_sorted(const char *dir) {
  struct dirent **all;
  int n = scandir(dir, &all, no_dots, alphasort);
  for (int i = 0; i < n; i++) {
    printf("%c %s\n", all[i]->d_type == DT_DIR ? 'd' : 'f', all[i]->d_name);
  }
  return n < 0;
}

static int list(const char *dir, int opens) {
  DIR *d = opendir(dir);
  struct dirent *e;
  while (d && (e = readdir(d))) {
    if (no_dots(e) && !opens) {
      printf("%c %s\n", e->d_type == DT_DIR ? 'd' : 'f', e->d_name);
    } else if (no_dots(e) && e->d_type == DT_REG) {
      char path[8192];
      snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
      int fd = open(path, O_RDONLY);
      if (fd >= 0) {
        close(fd);
      }
    }
  }
  return !d || closedir(d) != 0;
}

static int walk(char *dir) {
  char *roots[] = {dir, NULL};
  FTS *fts = fts_open(roots, FTS_PHYSICAL, in_order);
  FTSENT *e;
  while (fts && (e = fts_read(fts))) {
    if (e->fts_info != FTS_DP) {
      print(e->fts_path, e->fts_info == FTS_D);
    }
  }
  return !fts || errno != 0;
}

static int expand(const char *dir) {
  char pattern[4096];
  glob_t g = {0};
  snprintf(pattern, sizeof(pattern), "%s/*", dir);
  int rc = glob(pattern, GLOB_PERIOD, NULL, &g);
  for (size_t i = 0; i < g.gl_pathc; i++) {
    const char *name = g.gl_pathv[i] + root;
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
      print_any(g.gl_pathv[i]);
    }
  }
  return rc;
}

static int count(const char *dir) {
  char mark[100], prefix[4096];
  snprintf(prefix, sizeof(prefix), "%s/", dir);
  int (*begin)(char *, size_t) = dlsym(RTLD_DEFAULT, "shard_run_begin");
  int (*watch)(unsigned, const char *, const char *) = dlsym(RTLD_DEFAULT, "shard_run_watch");
  int64_t (*opens)(unsigned) = dlsym(RTLD_DEFAULT, "shard_run_opens");
  if (!begin || begin(mark, sizeof(mark)) != 0 || watch(0, prefix, ".tiff") != 0 ||
      list(dir, 1) != 0) {
    return 1;
  }
  printf("%lld\n", (long long)opens(0));
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3 || !setlocale(LC_ALL, "")) {
    fprintf(stderr, argc == 3 ? "there is no such locale\n" : "usage: locales MODE DIR\n");
    return 2;
  }
  const char *mode = argv[1];
  root = strlen(argv[2]) + 1;
  if (strcmp(mode, "number") == 0) {
    printf("%.1f %s\n", 1.5, strcasecmp("TIFF", "tiff") == 0 ? "alike" : "apart");
    return 0;
  }
  return strcmp(mode, "readdir") == 0   ? list(argv[2], 0)
         : strcmp(mode, "open") == 0    ? list(argv[2], 1)
         : strcmp(mode, "run") == 0     ? count(argv[2])
         : strcmp(mode, "scandir") == 0 ? list_sorted(argv[2])
         : strcmp(mode, "fts") == 0     ? walk(argv[2])
         : strcmp(mode, "nftw") == 0    ? nftw(argv[2], print_walked, 8, FTW_PHYS)
                                        : expand(argv[2]);
}
