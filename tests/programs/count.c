/* SPDX-License-Identifier: MIT */
/* count DIR - read a directory with readdir and count, as a loader does. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>

int main(int argc, char **argv) {
  DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
  if (!dir) {
    fprintf(stderr, "usage: count DIR\n");
    return 2;
  }
  unsigned long count = 0;
  errno = 0;
  while (readdir(dir)) {
    count++;
  }
  printf("%lu\n", count);
  return errno != 0;
}
