/* SPDX-License-Identifier: MIT */
/*
 * stack small|roomy FOLDER LISTING [CALL...] - each call (all of them, if none is named) in a
 * thread of its own, whose stack has PTHREAD_STACK_MIN bytes or 8 MB. Prints the call, what it has
 * found, and errno, a line each. FOLDER has a file "f1". LISTING: for the functions of libshard.h,
 * which are called if libshard is preloaded.
 */
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wordexp.h>

#include "libshard.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma weak shard_listing_open
#pragma weak shard_listing_close
#pragma weak shard_listing_count
#pragma weak shard_listing_name
#pragma weak shard_listing_find
#pragma weak shard_listing_seek
#pragma weak shard_listing_next
#pragma weak shard_dataset_open
#pragma weak shard_world_get
void shard_log(int level, const char *text) __attribute__((weak));

int __open_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);

static const char *folder, *listing;
static char path[PATH_MAX], buf[65536], name[SHARD_NAME_MAX];
static long found; /* what the call has found; -1: it has failed */

static void count(bool good) { found = !good ? -1 : found < 0 ? found : found + 1; }

static void take(int fd) {
  count(fd >= 0);
  if (fd >= 0) {
    close(fd);
  }
}

static const char *file(void) {
  snprintf(path, sizeof(path), "%s/f1", folder);
  return path;
}

static void call_readdir(void) {
  DIR *d = opendir(folder);
  struct dirent entry, *next;
  count(d);
  if (d) {
    long at = telldir(d);
    while (readdir(d)) {
      found++;
    }
    rewinddir(d);
    seekdir(d, at);
    while (readdir_r(d, &entry, &next) == 0 && next) {
      found++;
    }
    closedir(d);
  }
}

static void call_fdopendir(void) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY);
  DIR *d = fdopendir(fd);
  count(d);
  while (d && readdir(d)) {
    found++;
  }
  if (d) {
    closedir(d);
  } else {
    close(fd);
  }
}

static void call_scandir(void) {
  struct dirent **list = NULL;
  int n = scandir(folder, &list, NULL, alphasort);
  found = n;
  n = scandirat(AT_FDCWD, folder, &list, NULL, NULL);
  found += n;
}

static void call_getdents64(void) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY);
  off_t base;
  found = getdents64(fd, buf, sizeof(buf)) < 0 ? -1 : 1;
  lseek(fd, 0, SEEK_SET);
  count(getdirentries(fd, buf, sizeof(buf), &base) >= 0);
  lseek(fd, 0, SEEK_SET);
  count(syscall(SYS_getdents64, fd, buf, sizeof(buf)) >= 0);
  close(fd);
}

static void call_glob(void) {
  glob_t g;
  snprintf(path, sizeof(path), "%s/*", folder);
  found = glob(path, 0, NULL, &g) == 0 ? (long)g.gl_pathc : -1;
}

static void call_wordexp(void) {
  wordexp_t w;
  found = wordexp("a b", &w, 0) == 0 ? (long)w.we_wordc : -1;
  snprintf(path, sizeof(path), "%s/*", folder);
  count(wordexp(path, &w, 0) == 0);
}

static int see(const char *p, const struct stat *st, int type) {
  (void)p, (void)st, (void)type;
  found++;
  return 0;
}
static int see_more(const char *p, const struct stat *st, int type, struct FTW *f) {
  (void)f;
  return see(p, st, type);
}
static void call_ftw(void) { found = ftw(folder, see, 4) == 0 ? found : -1; }
static void call_nftw(void) { found = nftw(folder, see_more, 4, FTW_PHYS) == 0 ? found : -1; }

static void call_fts(void) {
  char *const roots[] = {(char *)folder, NULL};
  FTS *f = fts_open(roots, FTS_PHYSICAL, NULL);
  FTSENT *e;
  while (f && (e = fts_read(f))) {
    count(e->fts_info != FTS_DNR && e->fts_info != FTS_ERR);
    if (e->fts_info == FTS_D) {
      fts_children(f, 0);
      fts_set(f, e, 0);
    }
  }
  if (f) {
    fts_close(f);
  }
}

static void call_open(void) {
  take(open(file(), O_RDONLY));
  take(open64(file(), O_RDONLY));
  take(openat(AT_FDCWD, file(), O_RDONLY));
  take(openat64(AT_FDCWD, file(), O_RDONLY));
  take(__open_2(file(), O_RDONLY));
  take(__openat_2(AT_FDCWD, file(), O_RDONLY));
  take(creat("/dev/null", 0600));
  /* By a link that leads to it: of another folder. */
  unlink("link");
  count(symlink(file(), "link") == 0);
  take(open("link", O_RDONLY));
}

static void call_fopen(void) {
  FILE *f = fopen(file(), "r");
  f = f ? freopen(file(), "r", f) : NULL;
  count(f);
  if (f) {
    fclose(f);
  }
}

static void call_listing(void) {
  struct shard_listing *l = NULL;
  static struct shard_cursor cursor;
  const char *next;
  if (shard_listing_open && shard_listing_open(listing, &l) == 0) {
    found = (long)shard_listing_count(l) + (long)shard_listing_find(l, "f1") +
            (long)shard_listing_name(l, 0, name, sizeof(name));
    count(shard_listing_seek(&cursor, l, 0) == 0 && shard_listing_next(&cursor, &next) > 0);
    shard_listing_close(l);
  }
}

static void call_dataset(void) {
  struct shard_listing *l = NULL;
  struct shard_world world;
  if (shard_dataset_open) {
    shard_dataset_open(folder, "", &l, buf, sizeof(buf));
    shard_world_get(&world, buf, sizeof(buf));
    shard_log(0, "a line");
    shard_listing_close(l);
  }
}

static void call_exit(void) { _exit(0); }

static struct call {
  const char *name;
  void (*run)(void);
} calls[] = {{"readdir", call_readdir}, {"fdopendir", call_fdopendir},
             {"scandir", call_scandir}, {"getdents64", call_getdents64},
             {"glob", call_glob},       {"wordexp", call_wordexp},
             {"ftw", call_ftw},         {"nftw", call_nftw},
             {"fts", call_fts},         {"open", call_open},
             {"fopen", call_fopen},     {"listing", call_listing},
             {"dataset", call_dataset}, {"exit", call_exit}};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static void *run(void *call) {
  ((struct call *)call)->run();
  return NULL;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    for (size_t i = 0; i < CALLS; i++) {
      puts(calls[i].name);
    }
    return 0;
  }
  folder = argv[2];
  listing = argv[3];
  for (size_t i = 0; i < CALLS; i++) {
    bool asked = argc == 4;
    for (int k = 4; k < argc; k++) {
      asked |= strcmp(argv[k], calls[i].name) == 0;
    }
    pthread_attr_t attributes;
    pthread_t thread;
    found = 0;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes,
                              strcmp(argv[1], "small") == 0 ? (size_t)PTHREAD_STACK_MIN : 8 << 20);
    if (asked) {
      printf("%s ", calls[i].name);
      fflush(stdout);
      if (pthread_create(&thread, &attributes, run, &calls[i]) != 0) {
        return 2;
      }
      pthread_join(thread, NULL);
      printf("%ld\n", found);
    }
  }
  return 0;
}
