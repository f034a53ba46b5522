/* SPDX-License-Identifier: MIT */
/*
 * directory.c - gives what a walk finds to the intake; then looks at every directory once more, so
 * that the listing shows the tree at one moment.
 */
#include "source/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "build/intake.h"
#include "listing/identity.h"
#include "source/walk.h"

/*
 * Check that every directory is still as it was when it was read. Else a file that was moved during
 * the walk could be in both places, or in none. 0 or -EAGAIN.
 */
static int check_unchanged(const struct shard_intake *intake, const char *real, char *err,
                           size_t size) {
  struct shard_identity_eye eye = {0};
  int root = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
  for (size_t i = 0; rc == 0 && i < intake->dirs_count; i++) {
    const struct shard_intake_directory *d = &intake->dirs[i];
    struct shard_dir now;
    if (root < 0 || shard_identity_look(&eye, root, d->path, &now) != 0 ||
        memcmp(&now, &d->id, sizeof(now)) != 0) {
      rc = shard_error_set(err, size, -EAGAIN,
                           "'%.200s': directory '%.300s' changed while the tree was listed", real,
                           *d->path ? d->path : ".");
    }
  }
  shard_file_close(root);
  return rc;
}

/* A source's read(); context: the canonical directory. */
static int read_directory(void *context, struct shard_intake *intake, char *err, size_t size) {
  bool in_parts = intake->attempt == 0; /* parts may be why the first attempt failed */
  int rc = shard_walk(context, intake, SHARD_INTAKE_HANDS, in_parts, err, size);
  return rc ? rc : check_unchanged(intake, context, err, size);
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
