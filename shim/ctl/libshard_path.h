/* SPDX-License-Identifier: MIT */
/* libshard_path.h - where libshard.so lies, as shardctl sees it. */
#ifndef SHARD_CTL_LIBSHARD_PATH_H
#define SHARD_CTL_LIBSHARD_PATH_H

#include <limits.h>
#include <stdbool.h>

/*
 * The canonical path of the libshard.so that belongs to this shardctl: beside it, or, if its folder
 * is called bin, in ../lib and the like. And shardctl's own path in
 * `self`. false and path "" if there is none.
 */
bool ctl_libshard_path_find(char self[PATH_MAX], char path[PATH_MAX]);

#endif
