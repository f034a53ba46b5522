/* SPDX-License-Identifier: MIT */
/* file.h - small files, whole; those of /proc do not tell their size. */
#ifndef SHARD_BASE_FILE_H
#define SHARD_BASE_FILE_H

#include <stddef.h>

/* The file's bytes and a NUL, from malloc; *size without the NUL. NULL and errno on failure. */
char *shard_file_read(const char *path, size_t *size);

#endif
