/* SPDX-License-Identifier: MIT */
/* filesystem.h - kinds of file systems, by statfs(2)'s f_type. */
#pragma once

#include <stdbool.h>

/* The name of a file system that hosts share ("NFS", "Lustre", ...); else NULL. */
const char *shard_filesystem_network(unsigned type);

/* Whether a path lies on such a file system. errno may change. */
bool shard_filesystem_is_shared(const char *path);

/*
 * Whether a change of a directory always gets the time of a clock: the kernel's, or the server's.
 * false of one that may be an image with times of its own, may show another one's directories, or
 * is not known.
 */
bool shard_filesystem_has_clock(unsigned type);
