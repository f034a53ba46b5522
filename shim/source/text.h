/* SPDX-License-Identifier: MIT */
/*
 * text.h - names from a text, one a line (shardctl only).
 *
 * Names are bytes, taken as they stand. What is most likely a mistake is an error that tells the
 * line: an empty line, a NUL, a CR before the LF, PATH_MAX bytes or more, an absolute path that
 * does not lie below the root. A text that gzip or zstd has packed is unpacked by these programs.
 */
#ifndef SHARD_SOURCE_TEXT_H
#define SHARD_SOURCE_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct shard_manifest_options {
  char separator;   /* '\n' or 0 */
  const char *root; /* absolute paths lie below it, and lose it; NULL: there are none */
};

/*
 * Read file ("-": stdin) and give each name to `entry`, whose negative errno ends it. 0, or a
 * negative errno and a line in err[size]; err is "" if `entry` was at fault.
 */
int shard_manifest_read(const char *file, const struct shard_manifest_options *options,
                        int (*entry)(void *context, const char *name, size_t length), void *context,
                        char *err, size_t size);

#endif
