/* SPDX-License-Identifier: MIT */
/*
 * descriptors.h - a shardctl that libshard.so has started (host/builder.h) closes what descriptors
 * its host had open.
 *
 * It closes them itself, first of all: posix_spawn can do so since glibc 2.34 only, and a list of
 * them, made in the host, would miss what its other threads open meanwhile.
 */
#pragma once

#include <stdbool.h>

/*
 * Close every descriptor from `first` on: by close_range (Linux 5.9), else one number after the
 * other, up to the limit on open files or, if that is lower, to 1048576, the kernel's own default.
 * each: in the latter way, for tests. errno stays.
 */
void ctl_close_from(int first, bool each);
