/* SPDX-License-Identifier: MIT */
/*
 * removed DIR - opens an empty directory in several ways, removes it, and reads on: prints the
 * number of entries, and the error or none, of each way. "." and ".." do not count.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define KEPT 4242 /* no call has set errno */

static char buf[4096] __attribute__((aligned(8)));

static int is_name(const struct dirent *entry) {
  return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static void tell(const char *way, int count, int error) {
  printf("%s: %d, %s\n", way, count, error == KEPT || error == 0 ? "no error" : strerror(error));
}

static void read_all(const char *way, DIR *dir) {
  const struct dirent *entry;
  int count = 0;
  errno = KEPT;
  while ((entry = readdir(dir))) {
    count += is_name(entry);
  }
  tell(way, count, errno);
}

int main(int argc, char **argv) {
  DIR *fresh = opendir(argv[1]), *begun = opendir(argv[1]);
  int fd = open(argv[1], O_RDONLY | O_DIRECTORY), other = dup(fd);
  if (argc != 2 || !fresh || !begun || fd < 0 || !readdir(begun)) {
    perror(argv[1]);
    return 2;
  }
  if (rmdir(argv[1]) != 0) {
    perror("rmdir");
    return 2;
  }
  read_all("readdir", fresh);
  read_all("readdir, begun", begun);
  rewinddir(begun);
  read_all("readdir, rewound", begun);
  rewinddir(begun);
  struct dirent entry, *result;
  int rc, count = 0;
  while ((rc = readdir_r(begun, &entry, &result)) == 0 && result) {
    count += is_name(result);
  }
  tell("readdir_r", count, rc);
  errno = KEPT;
  long n = getdents64(fd, buf, sizeof(buf));
  tell("getdents64", n < 0 ? -1 : 0, errno);
  errno = KEPT;
  n = syscall(SYS_getdents64, fd, buf, sizeof(buf));
  tell("syscall", n < 0 ? -1 : 0, errno);
  DIR *later = fdopendir(other);
  if (later) {
    read_all("fdopendir", later);
  } else {
    tell("fdopendir", -1, errno);
  }
  return 0;
}
