/* SPDX-License-Identifier: MIT */
/* libshard_path.h - where libshard.so lies, as shardctl sees it. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * The canonical path of the libshard.so that belongs to this shardctl: beside it, or, if its folder
 * is called bin, in ../lib and the like. It must belong to root, to this user or to the owner of
 * this shardctl, and nobody else may be able to write to it, for it is run in whatever loads it.
 * LD_PRELOAD must be able to hold it. And shardctl's own path in `self`. false, path "" and a line
 * in err[size]: there is none, or it is not to be loaded.
 */
bool ctl_libshard_path_find(char self[PATH_MAX], char path[PATH_MAX], char *err, size_t size);

/*
 * The path in LD_PRELOAD of a libshard.so: the first that is there, else the last that is not.
 * false: none is named.
 */
bool ctl_libshard_path_preloaded(char path[PATH_MAX]);

/* Whether two paths lead to one file. */
bool ctl_libshard_path_same(const char *a, const char *b);
