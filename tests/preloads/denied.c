/* SPDX-License-Identifier: MIT */
/*
 * denied.c - preloaded, it lets the second getdents64(2) of a process fail with EACCES, as a server
 * may that has taken the leave to read away, and given it back.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/types.h>

ssize_t getdents64(int fd, void *buf, size_t size) {
  static int calls;
  ssize_t (*real)(int, void *, size_t);
  *(void **)&real = dlsym(RTLD_NEXT, "getdents64");
  if (++calls == 2) {
    errno = EACCES;
    return -1;
  }
  return real(fd, buf, size);
}
