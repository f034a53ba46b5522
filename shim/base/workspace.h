/* SPDX-License-Identifier: MIT */
/*
 * workspace.h - memory for a path, a name or a line while a function runs: a thread of the host may
 * have a stack of 16 KiB (scripts/stacks.py counts what libshard.so needs of it).
 *
 * A workspace is one of a few blocks of static memory; if all blocks are taken, or for more bytes,
 * a mapping. The functions are async-signal-safe, and safe in forked and vforked children: they
 * lock and allocate nothing. A block that another thread holds at a fork stays taken in the child.
 * errno is kept.
 */
#pragma once

#include <stddef.h>

#define SHARD_WORKSPACE_SIZE 8704 /* bytes: two paths and a name */
#define SHARD_WORKSPACE_SMALL 256 /* bytes that the stack always has */

/* A workspace that a function holds. at: NULL while the function holds none. */
struct shard_workspace {
  char *at;
  size_t size;
  void *slot; /* workspace.c's; NULL: it is mapped */
};

/* Hold a workspace of `size` bytes, not initialized. NULL: there is no memory, and nothing is held.
 */
char *shard_workspace_take(struct shard_workspace *w, size_t size);

/* Give back what is held. */
void shard_workspace_end(struct shard_workspace *w);
static inline void shard_workspace_give(struct shard_workspace *w) {
  if (w->at) {
    shard_workspace_end(w);
  }
}

#define SHARD_WORKSPACE_HELD(name)                                                                 \
  struct shard_workspace name##_held __attribute__((cleanup(shard_workspace_give))) = {.at = NULL}

/* Declare `char *name`, SHARD_WORKSPACE_SIZE bytes until the end of the block; or NULL. */
#define SHARD_WORKSPACE(name)                                                                      \
  SHARD_WORKSPACE_HELD(name);                                                                      \
  char *name = shard_workspace_take(&name##_held, SHARD_WORKSPACE_SIZE)

/* The same of `bytes` bytes; up to SHARD_WORKSPACE_SMALL they are of the stack, and never NULL. */
#define SHARD_WORKSPACE_OF(name, bytes)                                                            \
  SHARD_WORKSPACE_HELD(name);                                                                      \
  char name##_small[SHARD_WORKSPACE_SMALL];                                                        \
  char *name =                                                                                     \
      (bytes) <= sizeof(name##_small) ? name##_small : shard_workspace_take(&name##_held, (bytes))
