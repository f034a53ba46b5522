/* SPDX-License-Identifier: MIT */
/* libshard_path.h - finds the libshard.so that belongs to this shardctl. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Finds libshard.so: in the folder of shardctl or, if that folder is called bin, in ../lib,
 * ../lib64 and ../lib/MACHINE-linux-gnu. The library must belong to root, to this user or to the
 * owner of shardctl, and no other user may be able to write to the library.
 * self: gets shardctl's own path.
 * path: gets the canonical path of the library; "" on an error.
 * Returns true.
 * Errors: false and a line in err[size]: there is no library, the library must not be loaded, or
 * LD_PRELOAD cannot hold its path.
 */
bool ctl_libshard_path_find(char self[PATH_MAX], char path[PATH_MAX], char *err, size_t size);

/*
 * Finds the libshard.so that LD_PRELOAD names.
 * path: gets the first path at which there is a file; without any, the last path.
 * Returns false if LD_PRELOAD names no libshard.so.
 */
bool ctl_libshard_path_preloaded(char path[PATH_MAX]);

/* Returns whether two paths lead to the same file. */
bool ctl_libshard_path_same(const char *a, const char *b);
