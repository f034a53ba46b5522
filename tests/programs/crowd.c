/* SPDX-License-Identifier: MIT */
/*
 * crowd DIR: waits until stdin ends, as it does for many at once, and then reads DIR. Prints the
 * names, a line each; at the end how many seconds that took, and how many KiB the process had at
 * most.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* VmHWM of this program; getrusage() would tell of what executed it, too. */
static long peak(void) {
  char line[200];
  long most = -1;
  FILE *status = fopen("/proc/self/status", "re");
  while (status && most < 0 && fgets(line, sizeof(line), status)) {
    sscanf(line, "VmHWM: %ld", &most);
  }
  if (status) {
    fclose(status);
  }
  return most;
}

int main(int argc, char **argv) {
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  double begin = now();
  DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
  if (!dir) {
    fprintf(stderr, "opendir: %s\n", strerror(errno));
    return 1;
  }
  errno = 0;
  for (const struct dirent *d; (d = readdir(dir));) {
    if (d->d_name[0] != '.') {
      puts(d->d_name);
    }
  }
  if (errno != 0) {
    fprintf(stderr, "readdir: %s\n", strerror(errno));
    return 1;
  }
  double seconds = now() - begin;
  printf("%.4f %ld\n", seconds, peak());
  return 0;
}
