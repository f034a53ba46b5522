/* SPDX-License-Identifier: MIT */
/* memory.h - how much memory names may take while a listing is made (shardctl only). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Bytes for names: SHARD_BUILD_MEMORY. Without the variable, a quarter of what the memory limits of
 * this process's cgroups leave, but SHARD_BUILD_MEMORY_LEAST at least, and the variable's default
 * at most.
 */
size_t shard_memory_for_names(void);

/*
 * Bytes that the tightest memory limit of this process's cgroup and of its ancestors leaves (the
 * kernel's cgroup-v1/memory.rst, cgroup-v2.rst); UINT64_MAX: no limit is known. Page cache that the
 * kernel gives up first (inactive_file) counts as free.
 * groups: /proc/self/cgroup; mounts: /sys/fs/cgroup.
 */
uint64_t shard_memory_left(const char *groups, const char *mounts);
