/* SPDX-License-Identifier: MIT */
/*
 * pattern.h - paths with %r (rank), %e (epoch), %: (a colon) and %% (a percent sign), and which
 * paths name manifests. Pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Fill in rank and epoch. Returns the length without the NUL; -EINVAL if % stands before anything
 * but r, e or %; -ENAMETOOLONG if buf[size] is too small.
 */
ssize_t shard_pattern_expand(const char *pattern, uint64_t rank, uint64_t epoch, char *buf,
                             size_t size);

/* The same for item[length], a listing that all ranks share: of %: and %%, and nothing else may be.
 */
ssize_t shard_pattern_expand_item(const char *item, size_t length, char *buf, size_t size);

/* Whether the pattern has %LETTER, such as 'r' or 'e'. */
bool shard_pattern_has(const char *pattern, char letter);

/* What a manifest's name ends in: .txt, .txt.gz or .txt.zst. NULL: the file is no manifest. */
const char *shard_pattern_manifest_suffix(const char *file);

/* Whether the file's name, or file[length], is that of a manifest. */
bool shard_pattern_is_manifest(const char *file);
bool shard_pattern_names_manifest(const char *file, size_t length);
