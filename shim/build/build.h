/* SPDX-License-Identifier: MIT */
/*
 * build.h - from a source to a listing file (shardctl only).
 */
#ifndef SHARD_BUILD_BUILD_H
#define SHARD_BUILD_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing/options.h"

struct shard_build_result {
  uint64_t entries;
  uint64_t bytes;
  uint64_t directories;
  char digest[65];
};

/* How a listing is built. Zeros: the defaults. */
struct shard_build_means {
  size_t memory;      /* bytes for names; SHARD_BUILD_MEMORY_LEAST at least, 0: the default */
  const char *tmpdir; /* where names go that do not fit; NULL: TMPDIR, then beside the file */
  bool progress;      /* a line on stderr now and then */
};

#define SHARD_BUILD_MEMORY ((size_t)256 << 20)
#define SHARD_BUILD_MEMORY_LEAST ((size_t)8 << 20)

/*
 * List directory `root` and write the listing `file`. 0, or a negative errno and a line in
 * err[size] that names the path at fault. An older `file` stays untouched on failure.
 * Retries a few times if the directory changes while it is read.
 */
int shard_build_directory(const char *root, const struct shard_options *options,
                          const struct shard_build_means *means, const char *file,
                          struct shard_build_result *result, char *err, size_t size);

/*
 * The same of a text with a name a line (source/text.h), "-" for standard input. unique: a name
 * that comes twice counts once; else it is an error, unless options->order is SHARD_ORDER_KEEP or
 * _DIRECTORY. Attributes are made of the position; they go with the orders PATH and DIRECTORY only.
 * The listing's source is the manifest, or the root if there is one.
 */
struct shard_manifest_options;
int shard_build_manifest(const char *manifest, const struct shard_manifest_options *how,
                         const struct shard_options *options, bool unique,
                         const struct shard_build_means *means, const char *file,
                         struct shard_build_result *result, char *err, size_t size);

/* Takes the names of a source that comes by itself, such as a bucket. */
struct shard_intake;
int shard_intake_add(struct shard_intake *intake, const char *name, size_t length);

struct shard_build_source {
  const char *name;         /* the listing's source */
  const char *more_options; /* appended to the listing's options; "" if none */
  /*
   * Give all names, in any order, to shard_intake_add(), from one thread, and pass on its error
   * with err "". 0, or a negative errno and a line in err[size].
   */
  int (*read)(void *context, struct shard_intake *intake, char *err, size_t size);
  void *context;
};

/* The same of such a source; attributes are made, as of a text, and go with the order PATH only. */
int shard_build_source(const struct shard_build_source *source, const struct shard_options *options,
                       const struct shard_build_means *means, const char *file,
                       struct shard_build_result *result, char *err, size_t size);

#endif
