/* SPDX-License-Identifier: MIT */
/*
 * peek.h - reading mapped memory whose file others may cut.
 *
 * Beyond the end of its file a mapping is a SIGBUS for whoever touches it, and the end may move at
 * any time. The kernel copies for us: for it, it is an error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Copy size bytes. false: they are not there any more, cannot be read from the disk, or the kernel
 * copies for nobody here. Leaves errno alone, allocates nothing; safe in any context, but where
 * process_vm_readv(2) is forbidden it takes two descriptors meanwhile.
 */
bool shard_peek(void *to, const void *from, size_t size);

/* The second way alone; a test compares the two. */
bool shard_peek_by_pipe(void *to, const void *from, size_t size);
