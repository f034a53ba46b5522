/* SPDX-License-Identifier: MIT */
/*
 * proof.h - what the statistics of all ranks (SHARD_STATS) prove, and what is wrong with them. What
 * is read of them stays until the program ends.
 */
#pragma once

#include <stddef.h>

struct json_object;
struct shard_listing;

/*
 * Read files, a NULL after them, and check them; with a listing that was used, or one of the same
 * names, all shares are computed anew (NULL: none; else listing_file names it). Adds texts to the
 * two arrays: it is proven if there is no fault, but for *unproven facts that say what is not
 * proven. Returns how many ranks were read.
 */
size_t ctl_proof_make(char *const *files, struct shard_listing *listing, const char *listing_file,
                      struct json_object *faults, struct json_object *facts, size_t *unproven);

/* What the i-th of them wrote, in the order of their numbers; the keys that are needed for a proof
 * are there. */
struct json_object *ctl_proof_rank(size_t i);
