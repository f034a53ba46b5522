/* SPDX-License-Identifier: MIT */
/*
 * workspace.h - temporary memory for a path, a name or a line, in place of the stack: a thread of
 * the host may have a stack of 16 KiB (scripts/stacks.py adds up what libshard.so needs of it).
 *
 * A workspace is a block of static memory; a mapping, if all blocks are in use or the size is
 * larger. Async-signal-safe, and safe in forked and vforked children: nothing is locked or
 * allocated. A block that another thread holds during a fork stays in use in the child. Keeps
 * errno.
 */
#pragma once

#include <stddef.h>

#define SHARD_WORKSPACE_SIZE 8704 /* bytes: two paths and a name */
#define SHARD_WORKSPACE_SMALL 256 /* bytes: up to this size the stack is used */

/* A workspace that a function holds. at: NULL while the function holds none. */
struct shard_workspace {
  char *at;
  size_t size;
  void *slot; /* private to workspace.c; NULL: a mapping */
};

/* Takes a workspace of `size` bytes, not initialized. Errors: NULL, out of memory. */
char *shard_workspace_take(struct shard_workspace *w, size_t size);

/* Gives back a workspace that is held. */
void shard_workspace_end(struct shard_workspace *w);

/* Gives back a workspace if it is held. */
static inline void shard_workspace_give(struct shard_workspace *w) {
  if (w->at) {
    shard_workspace_end(w);
  }
}

/* Declares NAME_held, which is given back at the end of the block. */
#define SHARD_WORKSPACE_HELD(name)                                                                 \
  struct shard_workspace name##_held __attribute__((cleanup(shard_workspace_give))) = {.at = NULL}

/* Declares `char *NAME` of SHARD_WORKSPACE_SIZE bytes until the end of the block; or NULL. */
#define SHARD_WORKSPACE(name)                                                                      \
  SHARD_WORKSPACE_HELD(name);                                                                      \
  char *name = shard_workspace_take(&name##_held, SHARD_WORKSPACE_SIZE)

/* Declares `char *NAME` of `bytes` bytes; never NULL up to SHARD_WORKSPACE_SMALL bytes. */
#define SHARD_WORKSPACE_OF(name, bytes)                                                            \
  SHARD_WORKSPACE_HELD(name);                                                                      \
  char name##_small[SHARD_WORKSPACE_SMALL];                                                        \
  char *name =                                                                                     \
      (bytes) <= sizeof(name##_small) ? name##_small : shard_workspace_take(&name##_held, (bytes))
