/* SPDX-License-Identifier: MIT */
/* filesystem.h - kinds of file systems, by statfs(2)'s f_type. */
#pragma once

#define SHARD_FILESYSTEM_FUSE 0x65735546

/*
 * Returns the name of a file system that hosts may share ("NFS", "Lustre", ...), else NULL. Pure.
 */
const char *shard_filesystem_network_name(unsigned type);
