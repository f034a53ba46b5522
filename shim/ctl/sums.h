/* SPDX-License-Identifier: MIT */
/*
 * sums.h - sets of names compared by their number and the sum, modulo 2^64, of their XXH64: sets
 * that lie in a listing make it up, each name once, if both add up to the listing's; by chance they
 * do in one case of 2^64.
 */
#ifndef SHARD_CTL_SUMS_H
#define SHARD_CTL_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/shard.h"

struct shard_listing;

struct ctl_set {
  uint64_t count, sum;
};

/* A share and the names it has. */
struct ctl_share {
  struct shard_share share;
  struct ctl_set owned;
};

/*
 * The whole listing into *whole, and what each of shares[count] has of it, by shard_share_owns().
 * Names below the directories inner[inner_count] are left out, and positions counted without them:
 * the shares' n must be the number of names that are left, or be 0 to be filled in (count 0). 0 or
 * a negative errno; -ESTALE if n is another.
 */
int ctl_sums(const struct shard_listing *listing, char *const *inner, size_t inner_count,
             struct ctl_set *whole, struct ctl_share *shares, size_t count);

#endif
