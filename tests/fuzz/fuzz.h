/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - what the targets share. A target is a file of this folder with fuzz(), which is given
 * any bytes, as somebody else may write them. libFuzzer looks for bytes by which it crashes, leaks
 * or breaks a rule (make fuzz); replay.c gives it the files of inputs/NAME/ (make test).
 */
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
static void fuzz(const char *data, size_t size);

/* What must hold for every input. */
#define RULE(holds)                                                                                \
  do {                                                                                             \
    if (!(holds)) {                                                                                \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds);                          \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

/* The bytes are copied, so that a sanitizer sees what reads past their end. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *copy = malloc(size ? size : 1);
  RULE(copy);
  memcpy(copy, data, size);
  fuzz(copy, size);
  free(copy);
  return 0;
}

/* A folder of this process for files that have to have a name; "" until it is asked for. */
static char fuzz_made[64];

static inline const char *fuzz_folder(void) {
  if (!fuzz_made[0]) { /* a process that was killed has left its own */
    snprintf(fuzz_made, sizeof(fuzz_made), "/dev/shm/shard-fuzz-XXXXXX");
    RULE(mkdtemp(fuzz_made));
  }
  return fuzz_made;
}

/* Write a file of the folder anew; its path, good until the next call. */
static inline const char *fuzz_file(const char *name, const char *data, size_t size) {
  static char path[256];
  snprintf(path, sizeof(path), "%s/%s", fuzz_folder(), name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  RULE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  close(fd);
  return path;
}

static inline void fuzz_remove(const char *name) {
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", fuzz_folder(), name);
  unlink(path);
}

/* No folder stays behind. */
__attribute__((destructor)) static void fuzz_leave(void) {
  if (fuzz_made[0]) {
    rmdir(fuzz_made);
  }
}

/* A text of the input up to a byte, as a string that is the caller's; *rest is behind that byte. */
static inline char *fuzz_text(const char **rest, const char *end, char until) {
  const char *at = *rest;
  const char *stop = at < end ? memchr(at, until, (size_t)(end - at)) : NULL;
  size_t length = (size_t)((stop ? stop : end) - at);
  char *text = malloc(length + 1);
  RULE(text);
  memcpy(text, at, length);
  text[length] = 0;
  *rest = stop ? stop + 1 : end;
  return text;
}
