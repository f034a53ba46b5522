/* SPDX-License-Identifier: MIT */
/* filesystem.h - kinds of file systems, by statfs(2)'s f_type. */
#pragma once

#define SHARD_FILESYSTEM_FUSE 0x65735546

/* The name of a file system that hosts share ("NFS", "Lustre", ...); else NULL. Pure. */
const char *shard_filesystem_network(unsigned type);
