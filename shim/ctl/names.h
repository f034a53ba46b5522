/* SPDX-License-Identifier: MIT */
/* names.h - the names of a listing, a sample at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct shard_listing;

/*
 * Give each name of sample k to `take`. What comes next in the listing is not searched for. 0, a
 * negative errno of the listing, or what `take` has returned, if that is not 0. One thread, and one
 * listing at a time.
 */
int ctl_names_of_sample(const struct shard_listing *listing, uint64_t k,
                        int (*take)(void *context, const char *name, size_t length), void *context);
