/* SPDX-License-Identifier: MIT */
/* self.h - where this library lies. */
#ifndef SHARD_HOST_SELF_H
#define SHARD_HOST_SELF_H

#include <stddef.h>

/* Absolute path of this library (or program). 0 or -ENOENT. */
int shard_self_path(char *buf, size_t size);

/*
 * Path of a program of ours: beside this library, or in ../bin or ../../bin (lib/x86_64-linux-gnu).
 * 0, or -ENOENT and in buf the directory that was looked into.
 */
int shard_self_program(const char *name, char *buf, size_t size);

#endif
