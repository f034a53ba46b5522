/*
 * naive.so: the obvious sharding preload, which is wrong for a benchmark that
 * shards by itself. The tests' negative control: a comparison that finds no
 * difference under this library proves nothing.
 *
 * readdir shows a rank only every SIZE-th regular file of the directories
 * whose path begins with NAIVE_ROOT.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_FD = 1024 };
static unsigned seen[MAX_FD]; /* regular files met so far, by the directory's descriptor */

static int number(const char *name, int otherwise) {
  const char *value = getenv(name);

  return value ? atoi(value) : otherwise;
}

static int below_root(int fd) {
  const char *root = getenv("NAIVE_ROOT");
  char link[48];
  char path[4096];
  ssize_t len;

  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  len = readlink(link, path, sizeof(path));
  return root && len >= (ssize_t)strlen(root) && memcmp(path, root, strlen(root)) == 0;
}

EXPORT DIR *opendir(const char *path) {
  DIR *(*real)(const char *);
  DIR *dir;

  *(void **)&real = dlsym(RTLD_NEXT, "opendir");
  dir = real(path);
  if (dir && dirfd(dir) < MAX_FD)
    seen[dirfd(dir)] = 0;
  return dir;
}

EXPORT struct dirent64 *readdir64(DIR *dir) {
  struct dirent64 *(*real)(DIR *);
  unsigned rank = (unsigned)number("OMPI_COMM_WORLD_RANK", 0);
  unsigned size = (unsigned)number("OMPI_COMM_WORLD_SIZE", 1);
  int fd = dirfd(dir);
  int filter = fd < MAX_FD && below_root(fd);
  struct dirent64 *entry;

  *(void **)&real = dlsym(RTLD_NEXT, "readdir64");
  while ((entry = real(dir)) != NULL)
    if (!filter || entry->d_type != DT_REG || seen[fd]++ % size == rank)
      break;
  return entry;
}

EXPORT struct dirent *readdir(DIR *dir) {
  return (struct dirent *)readdir64(dir); /* the same layout on 64-bit systems */
}
