/* SPDX-License-Identifier: MIT */
/*
 * text.h - a text with a name a line as the source of a listing: a manifest, say (shardctl only).
 *
 * Names are bytes, taken as they stand. What is most likely a mistake is an error that tells the
 * line: an empty line, a NUL, a CR before the LF, PATH_MAX bytes or more, an absolute path that
 * does not lie below the root, if there is a root. Without one absolute paths are names like
 * others, and may stand beside relative ones; but not in a listing that is ordered by directory,
 * which is of a root. A text that gzip or zstd has packed is unpacked by these programs.
 */
#ifndef SHARD_SOURCE_TEXT_H
#define SHARD_SOURCE_TEXT_H

#include <stddef.h>

#include "build/build.h"

struct shard_text_options {
  char separator;   /* '\n' or 0 */
  const char *root; /* absolute paths lie below it, and lose it; NULL: they are kept */
};

/*
 * Write the listing `file` of the names in text `path` ("-": standard input), as shard_build(). The
 * listing's source is the text, or the root if there is one.
 */
int shard_text_build(const char *path, const struct shard_text_options *how,
                     const struct shard_options *options, const struct shard_build_means *means,
                     const char *file, struct shard_build_result *result, char *err, size_t size);

#endif
