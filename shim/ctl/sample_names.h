/* SPDX-License-Identifier: MIT */
/* sample_names.h - reads the names of a listing sample by sample. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct shard_listing;

/*
 * Calls `take` with each name of a sample. Reading sample k + 1 after sample k takes no search. For
 * one thread alone, and for one listing in the process.
 * k: the sample's number.
 * take: a result other than 0 ends the calls and is returned.
 * Errors: -EBADMSG, or a negative errno of the listing.
 */
int ctl_sample_names(const struct shard_listing *listing, uint64_t k,
                     int (*take)(void *context, const char *name, size_t length), void *context);
