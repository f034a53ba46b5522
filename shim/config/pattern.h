/* SPDX-License-Identifier: MIT */
/*
 * pattern.h - paths with %r (rank), %e (epoch) and %% (a percent sign) in them, and what a path
 * tells of its file. Pure functions.
 */
#ifndef SHARD_CONFIG_PATTERN_H
#define SHARD_CONFIG_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Fill in rank and epoch. The length without the NUL; -EINVAL if a % stands before anything else,
 * -ENAMETOOLONG if buf[size] is too small.
 */
ssize_t shard_pattern_expand(const char *pattern, uint64_t rank, uint64_t epoch, char *buf,
                             size_t size);

/* Whether the pattern has %r, or %e. */
bool shard_pattern_has(const char *pattern, char letter);

/* Whether a file is a manifest, by its name: .txt, .txt.gz, .txt.zst. */
bool shard_pattern_is_manifest(const char *file);

#endif
