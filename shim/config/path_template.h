/* SPDX-License-Identifier: MIT */
/*
 * path_template.h - paths with %r (rank), %e (epoch), %: (a colon) and %% (a percent sign), and
 * which paths name manifests. Pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Prints a template into buf[size], with rank and epoch filled in.
 * Returns the length without the NUL.
 * Errors: -EINVAL, % stands before another letter than r, e or %; -ENAMETOOLONG, buf is too small.
 */
ssize_t shard_path_template_expand(const char *pattern, uint64_t rank, uint64_t epoch, char *buf,
                                   size_t size);

/* Does the same for item[length], a listing that all ranks share: only %: and %% are allowed. */
ssize_t shard_path_template_expand_item(const char *item, size_t length, char *buf, size_t size);

/* Returns whether the template has %LETTER, such as 'r' or 'e'. */
bool shard_path_template_has(const char *pattern, char letter);

/*
 * Returns the suffix by which file[length] names a manifest, .txt, .txt.gz or .txt.zst, static
 * storage; NULL if the file is no manifest.
 */
const char *shard_path_template_manifest_suffix(const char *file, size_t length);

/* Returns whether a file's name is that of a manifest. */
bool shard_path_template_is_manifest(const char *file);
