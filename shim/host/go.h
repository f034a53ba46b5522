/* SPDX-License-Identifier: MIT */
/* go.h - recognises Go programs, which make system calls without libc. */
#pragma once

#include <stdbool.h>

/*
 * Returns whether the program is Go's: looks for the magic of the module's build information, which
 * Go's linker puts into a writable segment, as Go's debug/buildinfo does. Only reads memory.
 */
bool shard_go_is_program(void);
