/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/kernel.h"

#define FIRST_FREE_FD 10

char *shard_file_read(const char *path, size_t *size) {
  int fd = shard_kernel_open(AT_FDCWD, path, O_RDONLY);
  size_t room = 8192, used = 0;
  char *data = fd < 0 ? NULL : malloc(room + 1);
  ssize_t n = 1;
  while (data && n > 0) {
    n = read(fd, data + used, room - used);
    char *more = data;
    if (n > 0 && (used += (size_t)n) == room) {
      more = realloc(data, (room *= 2) + 1);
    }
    if (n < 0 || !more) {
      free(data);
      more = NULL;
    }
    data = more;
  }
  shard_file_close(fd);
  if (data) {
    data[used] = 0;
    *size = used;
  }
  return data;
}

int shard_file_move_fd(int fd) {
  if (fd < 0 || fd >= FIRST_FREE_FD) {
    return fd;
  }
  int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
  int saved = high < 0 && errno == EINVAL ? EMFILE : errno; /* RLIMIT_NOFILE is 10 or less */
  close(fd);
  errno = saved;
  return high;
}

bool shard_file_size_allowed(uint64_t size) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || size <= limit.rlim_cur;
}
