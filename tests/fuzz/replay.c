/* SPDX-License-Identifier: MIT */
/* Gives a target the files that are named: what was found once, and examples. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    struct stat st;
    int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
    uint8_t *data = fd >= 0 && fstat(fd, &st) == 0 ? malloc((size_t)st.st_size + 1) : NULL;
    if (!data || read(fd, data, (size_t)st.st_size) != st.st_size) {
      perror(argv[i]);
      return 1;
    }
    close(fd);
    LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
    free(data);
  }
  printf("%d inputs\n", argc - 1);
  return argc > 1 ? 0 : 1;
}
