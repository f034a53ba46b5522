/* SPDX-License-Identifier: MIT */
/* memory.h - tells how much memory names may take while a listing is made (shardctl only). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Returns how many bytes names may take: SHARD_BUILD_MEMORY. If the variable is not set, a quarter
 * of what the memory limits of this process's cgroups leave, but not more than the variable's
 * default. In no case less than SHARD_BUILD_MEMORY_LEAST.
 */
size_t shard_memory_for_names(void);

/*
 * Returns how many bytes are left below the tightest memory limit of this process's cgroup and of
 * the cgroup's ancestors (the kernel's cgroup-v1/memory.rst, cgroup-v2.rst). Page cache that the
 * kernel gives up first (inactive_file) counts as free.
 * groups, mounts: the paths /proc/self/cgroup and /sys/fs/cgroup, or others in tests.
 * Returns UINT64_MAX if no limit is known.
 */
uint64_t shard_memory_left(const char *groups, const char *mounts);
