/* SPDX-License-Identifier: MIT */
/* libshard_path.h - finds the libshard.so that belongs to this shardctl. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Find libshard.so: beside shardctl or, if its folder is called bin, in ../lib and the like.
 *
 * self: shardctl's own path. path: the canonical path of the library.
 * Returns false, "" in path and a line in err[size] if there is none, if LD_PRELOAD cannot hold its
 * path, or if it must not be loaded: the library has to belong to root, to this user or to the
 * owner of shardctl, and nobody else may be able to write to it.
 */
bool ctl_libshard_path_find(char self[PATH_MAX], char path[PATH_MAX], char *err, size_t size);

/* Find a libshard.so in LD_PRELOAD: the first that is there, else the last that is missing. Returns
 * false if LD_PRELOAD names none. */
bool ctl_libshard_path_preloaded(char path[PATH_MAX]);

/* Returns whether two paths lead to one file. */
bool ctl_libshard_path_same(const char *a, const char *b);
