/* SPDX-License-Identifier: MIT */
/*
 * forks US DIRECTORY...: counts the names of each directory, while another thread forks a child
 * each US microseconds. The children do nothing until the directory has been read, and have copies
 * of all descriptors that were open when they were made.
 *
 * forks shared DIRECTORY: a thread reads one stream again and again; each of 200 children reads it,
 * too.
 *
 * forks late SIGN DIRECTORY: a child is forked once there is a file SIGN, which the builder of the
 * directory's listing makes. It makes SIGN.forked, and lives on until standard input ends: what it
 * has inherited must keep nobody waiting. Prints how many names the parent saw.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 1000 /* a user may not have many more processes */

static atomic_bool stop;
static pid_t children[MOST];
static size_t count;

static void *make_children(void *interval) {
  while (!atomic_load(&stop) && count < MOST) {
    pid_t pid = fork();
    if (pid == 0) {
      pause();
      _exit(0);
    }
    if (pid > 0) {
      children[count++] = pid;
    }
    usleep((useconds_t) * (long *)interval);
  }
  return NULL;
}

static long read_all(const char *path) {
  long names = 0;
  DIR *dir = opendir(path);
  if (!dir) {
    return -1;
  }
  errno = 0;
  for (const struct dirent *d; (d = readdir(dir));) {
    names += d->d_name[0] != '.';
  }
  int error = errno;
  closedir(dir);
  errno = error;
  return error ? -1 : names;
}

static void *read_again(void *dir) {
  while (!atomic_load(&stop)) {
    if (!readdir(dir)) {
      rewinddir(dir);
    }
  }
  return NULL;
}

/* The thread is in no child: what it had locked must keep none waiting. */
static int share(const char *path) {
  DIR *dir = opendir(path);
  pthread_t thread;
  int status = dir ? 0 : -1, made = 0;
  pthread_create(&thread, NULL, read_again, dir);
  while (status == 0 && made < 200) {
    pid_t pid = fork();
    if (pid == 0) {
      alarm(100);
      readdir(dir);
      _exit(0);
    }
    waitpid(pid, &status, 0);
    made++;
  }
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
  closedir(dir);
  printf("%d children, the last one's status: %d\n", made, status);
  return 0;
}

static void *fork_late(void *sign) {
  while (access(sign, F_OK) != 0) {
    usleep(5000);
  }
  if (fork() == 0) {
    char name[4096], byte;
    close(1);
    close(2);
    snprintf(name, sizeof(name), "%s.forked", (const char *)sign);
    close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    while (read(0, &byte, 1) > 0) {
    }
    _exit(0);
  }
  return NULL;
}

static int list_meanwhile(char *sign, const char *path) {
  pthread_t thread;
  pthread_create(&thread, NULL, fork_late, sign);
  long names = read_all(path);
  pthread_join(thread, NULL);
  printf("%ld\n", names);
  return names < 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "shared") == 0) {
    return share(argv[2]);
  }
  if (argc == 4 && strcmp(argv[1], "late") == 0) {
    return list_meanwhile(argv[2], argv[3]);
  }
  long interval = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
  for (int i = 2; i < argc; i++) {
    pthread_t thread;
    struct timespec begin, end;
    atomic_store(&stop, false);
    count = 0;
    pthread_create(&thread, NULL, make_children, &interval);
    usleep(2000);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    long names = read_all(argv[i]);
    int error = errno;
    clock_gettime(CLOCK_MONOTONIC, &end);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    double seconds =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    if (names < 0) {
      printf("%s: %s after %.1f s\n", argv[i], strerror(error), seconds);
    } else {
      printf("%ld\n", names);
    }
    for (size_t k = 0; k < count; k++) {
      kill(children[k], SIGKILL);
      waitpid(children[k], NULL, 0);
    }
  }
  return 0;
}
