/* SPDX-License-Identifier: MIT */
/* dents.h - what the constructor has to tell syscall(). */
#pragma once

/* Look up libc's syscall(). Any thread may do it, again too. Leaves errno alone. */
void shard_dents_resolve(void);
