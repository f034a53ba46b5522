/* SPDX-License-Identifier: MIT */
/* sample_names.h - reads the names of a listing sample by sample. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct shard_listing;

/*
 * Call `take` with each name of a sample. The sample that follows the last one is not searched for.
 *
 * k: the sample's number.
 * Returns 0, a negative errno of the listing, or what `take` has returned, if that is not 0. One
 * thread, and one listing in the process.
 */
int ctl_sample_names(const struct shard_listing *listing, uint64_t k,
                     int (*take)(void *context, const char *name, size_t length), void *context);
