/* SPDX-License-Identifier: MIT */
/*
 * opens.h - an open is noted if it is of a dataset's file.
 *
 * No locks and no allocations; no descriptor is kept. It may be called in a signal handler, and
 * between (v)fork and exec. errno may change.
 */
#pragma once

/* fd was opened by openat(dirfd, path). */
void shard_opens_note(int fd, int dirfd, const char *path);
