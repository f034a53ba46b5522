/* SPDX-License-Identifier: MIT */
#include "libshard.h"

#ifndef SHARD_VERSION
#define SHARD_VERSION "0.1.0"
#endif

const char *shard_version(void) { return SHARD_VERSION; }
