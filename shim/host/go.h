/* SPDX-License-Identifier: MIT */
/* go.h - whether the program is one of Go's, which makes its system calls itself. */
#pragma once

#include <stdbool.h>

/* Go's linker writes the module's build information into a writable segment; this looks for its
 * magic there, as Go's own reader does (debug/buildinfo). It reads memory, and nothing else. */
bool shard_go_is_program(void);
