/* SPDX-License-Identifier: MIT */
/*
 * text.h - a text with a name a line, such as a manifest, as the source of a listing (shardctl
 * only).
 *
 * Names are bytes, taken as they stand. What is most likely a mistake is an error (-EINVAL) that
 * names the line: an empty line, a NUL, a CR before the LF, PATH_MAX bytes or more, an absolute
 * path that does not lie below the root. Without a root, absolute paths are names like others, and
 * may stand beside relative ones; but order DIRECTORY refuses them, as its listing has a root. gzip
 * or zstd is started to unpack a text that it has packed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "build/build.h"

struct shard_text_options {
  char separator; /* '\n' or 0 */
  /* Absolute paths must lie below it, and lose it; names in a directory are made canonical. NULL:
   * all are kept as they are. */
  const char *root;
  uint64_t unpacked_max; /* bytes that a packed text may have; more is -EFBIG */
  bool unique;           /* keep a name once that comes twice */
};

/*
 * Write the listing `file` of the names in text `path` ("-": standard input), as shard_build()
 * does. The listing's source is the root's real path; the text's if there is no root.
 */
int shard_text_build(const char *path, const struct shard_text_options *how,
                     const struct shard_options *options, const char *file,
                     struct shard_build_result *result, char *err, size_t size);
