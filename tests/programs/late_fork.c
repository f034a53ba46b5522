/* SPDX-License-Identifier: MIT */
/*
 * late_fork DIR: while one thread waits for DIR's listing to be built, another forks a child that
 * lives on for SECONDS. What the child inherited must keep nobody waiting. Prints how many entries
 * it saw, and leaves the child behind.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *forker(void *seconds) {
  usleep(300000); /* the builder is at work by now */
  if (fork() == 0) {
    close(1);
    close(2);
    sleep((unsigned)atoi(seconds));
    _exit(0);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: late_fork DIR SECONDS\n");
    return 2;
  }
  pthread_t t;
  pthread_create(&t, NULL, forker, argv[2]);
  DIR *d = opendir(argv[1]);
  if (!d) {
    perror("opendir");
    return 1;
  }
  int n = 0;
  while (readdir(d)) {
    n++;
  }
  closedir(d);
  pthread_join(t, NULL);
  printf("%d\n", n);
  return 0;
}
