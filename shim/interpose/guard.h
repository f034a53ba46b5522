/* SPDX-License-Identifier: MIT */
/*
 * guard.h - set while a thread is inside our own code: whatever that calls is passed on.
 */
#ifndef SHARD_INTERPOSE_GUARD_H
#define SHARD_INTERPOSE_GUARD_H

#include <stdbool.h>

#include "view/view.h"

extern _Thread_local int shard_depth __attribute__((visibility("hidden")));

/* Whether a wrapper has anything to do. */
static inline bool shard_guard_passes(void) { return shard_depth > 0 || !shard_view_active(); }

/* The functions behind the wrappers are known: dir.c may take the short way. Once. */
void shard_dir_ready(void);

/* Let syscall() find libc's (dents.c). */
void shard_syscall_resolve(void);

/* shard_view_open() under the guard. */
int shard_guard_open(int fd, struct shard_served **out);

#endif
