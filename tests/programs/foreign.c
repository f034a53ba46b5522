/* SPDX-License-Identifier: MIT */
/*
 * foreign WAY DIR: opens a directory by one call (fdopendir: a number that is no descriptor), and
 * prints its error; "bad" passes descriptors
 * that are none to fdopendir and getdents64.
 */
#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int visit(const char *path, const struct stat *st, int code, struct FTW *ftw) {
  (void)path, (void)st, (void)ftw;
  return code == FTW_DNR ? 77 : 0;
}

int main(int argc, char **argv) {
  const char *way = argc == 3 ? argv[1] : "", *dir = argc == 3 ? argv[2] : "";
  char *paths[] = {(char *)dir, NULL}, pattern[4096], buf[64];
  struct dirent **list;
  glob_t found;
  const char *error = NULL;
  if (strcmp(way, "opendir") == 0) {
    error = opendir(dir) ? NULL : strerror(errno);
  } else if (strcmp(way, "fdopendir") == 0) {
    error = fdopendir(1000) ? NULL : strerror(errno);
  } else if (strcmp(way, "scandir") == 0) {
    error = scandir(dir, &list, NULL, NULL) >= 0 ? NULL : strerror(errno);
  } else if (strcmp(way, "nftw") == 0) {
    error = nftw(dir, visit, 5, FTW_PHYS) == -1 ? strerror(errno) : NULL;
  } else if (strcmp(way, "glob") == 0) {
    snprintf(pattern, sizeof(pattern), "%s/*", dir);
    error = glob(pattern, 0, NULL, &found) == GLOB_ABORTED ? "aborted" : NULL;
  } else if (strcmp(way, "fts") == 0) {
    FTS *fts = fts_open(paths, FTS_PHYSICAL, NULL);
    const FTSENT *e;
    while ((e = fts_read(fts))) {
      error = e->fts_info == FTS_DNR ? strerror(e->fts_errno) : error;
    }
  } else if (strcmp(way, "bad") == 0) {
    errno = 0;
    error = fdopendir(-1) ? "opened" : strerror(errno);
    printf("bad: %s, ", error);
    error = getdents64(1000, buf, sizeof(buf)) >= 0 ? "read" : strerror(errno);
    puts(error);
    return 0;
  }
  printf("%s: %s\n", way, error ? error : "listed");
  return 0;
}
