/* SPDX-License-Identifier: MIT */
#include "source/directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "build/intake.h"
#include "source/walk.h"

/* A source's read(); context: the canonical directory. */
static int read_directory(void *context, struct shard_intake *intake, char *err, size_t size) {
  return shard_walk(context, intake, SHARD_WALK_THREADS, err, size);
}

int shard_directory_build(const char *root, const struct shard_options *options, const char *file,
                          struct shard_build_result *result, char *err, size_t size) {
  char *real = realpath(root, NULL);
  if (!real) {
    return shard_error_set(err, size, -errno, "cannot find directory '%.300s': %s", root,
                           strerror(errno));
  }
  const struct shard_source source = {.name = real,
                                      .twice = "the directory changed while it was listed",
                                      .directory = true,
                                      .read = read_directory,
                                      .context = real};
  int rc = shard_build(&source, options, file, result, err, size);
  free(real);
  return rc;
}
