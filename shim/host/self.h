/* SPDX-License-Identifier: MIT */
/* self.h - where this library lies, and the programs that belong to it. */
#ifndef SHARD_HOST_SELF_H
#define SHARD_HOST_SELF_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The constructor calls this: a relative path such as LD_PRELOAD=./libshard.so is true of the
 * directory in which the process stands then, and of no later one. Opens no file.
 */
void shard_self_init(void);

/* Absolute path of this library (or program). 0 or -ENOENT. */
int shard_self_path(char *buf, size_t size);

/*
 * dlopen(3)'s handle of the library that this function is in; NULL: of a program. Whoever opens its
 * path may get another one: it was installed anew, and both would be loaded.
 */
void *shard_self_handle(void);

/* Whether another copy of this library comes before this one, as where LD_PRELOAD names two. */
bool shard_self_is_second(void);

/*
 * Open (O_PATH) shardctl: beside this library; or, if that lies in a folder `lib` or
 * `lib64`, in ../bin; or, in lib/x86_64-linux-gnu, in ../../bin. It must belong to root, to this
 * user or to the owner of this library, and nobody else may be able to write to it.
 *
 * Returns a descriptor above 9 with O_CLOEXEC, which is to be run as it is: whoever opens the path
 * once more may get something else. path[size]: its path, for people. Or a negative errno and a
 * line in err[err_size].
 */
int shard_self_program(char *path, size_t size, char *err, size_t err_size);

#endif
