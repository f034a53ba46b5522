/* SPDX-License-Identifier: MIT */
/* library.h - where this library lies, and the shardctl that belongs to it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Notes the library's path. Called by the constructor, because a relative path such as
 * LD_PRELOAD=./libshard.so depends on the working directory of that moment. Opens no file, unless
 * the path begins with /proc/. Keeps errno.
 */
void shard_library_init(void);

/*
 * Prints the absolute path of this library, or of a program that is linked statically, into
 * buf[size].
 * Errors: -ENOENT, the path is not known.
 */
int shard_library_path(char *buf, size_t size);

/*
 * Returns dlopen(3)'s handle of this library; NULL in a program that is linked statically. dlopen()
 * of the library's path might load a second library, installed meanwhile.
 */
void *shard_library_handle(void);

/*
 * Returns whether another copy of this library was loaded before this copy (LD_PRELOAD names two).
 */
bool shard_library_is_second_copy(void);

/*
 * Opens shardctl (O_PATH): beside this library; if the library lies in `lib` or `lib64`, in ../bin;
 * if in lib/x86_64-linux-gnu, in ../../bin. shardctl must belong to root, to this user or to the
 * library's owner, and nobody else may be able to write to it.
 * path[size]: gets the path, for messages.
 * Returns a descriptor above 9 with O_CLOEXEC, which the caller executes: the path may lead to
 * another file by then.
 * Errors: a negative errno and a line.
 */
int shard_library_open_shardctl(char *path, size_t size, char *err, size_t err_size);
