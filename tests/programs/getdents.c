/* SPDX-License-Identifier: MIT */
/* getdents DIR... - read directories with the bare system call and count; the limit for listing. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
  static char buffer[256 << 10];
  unsigned long count = 0;
  long n = 0;
  for (int i = 1; i < argc && n == 0; i++) {
    int fd = open(argv[i], O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
      perror(argv[i]);
      return 2;
    }
    while ((n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0) {
      for (long at = 0; at < n; count++) {
        unsigned short reclen;
        memcpy(&reclen, buffer + at + 16, sizeof(reclen));
        at += reclen;
      }
    }
    close(fd);
  }
  printf("%lu\n", count);
  return n < 0 || argc < 2;
}
