/* SPDX-License-Identifier: MIT */
/* dents.h - what the constructor has to tell syscall(). */
#ifndef SHARD_INTERPOSE_DENTS_H
#define SHARD_INTERPOSE_DENTS_H

/* Look up libc's syscall(). Any thread may do it, again too. Leaves errno alone. */
void shard_dents_resolve(void);

#endif
