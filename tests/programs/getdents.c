/* SPDX-License-Identifier: MIT */
/* getdents DIR - read a directory with the bare system call and count; the limit for listing. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
  static char buffer[256 << 10];
  int fd = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;
  if (fd < 0) {
    fprintf(stderr, "usage: getdents DIR\n");
    return 2;
  }
  unsigned long count = 0;
  long n;
  while ((n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0) {
    for (long at = 0; at < n; count++) {
      unsigned short reclen;
      memcpy(&reclen, buffer + at + 16, sizeof(reclen));
      at += reclen;
    }
  }
  printf("%lu\n", count);
  return n < 0;
}
