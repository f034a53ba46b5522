/* SPDX-License-Identifier: MIT */
/*
 * nameset.h - sets of names compared by their number and the sum, modulo 2^64, of their XXH64: sets
 * that lie in a listing make it up, each name once, if both add up to the listing's; by chance they
 * do in one case of 2^64.
 */
#ifndef SHARD_CTL_NAMESET_H
#define SHARD_CTL_NAMESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/shard.h"

struct shard_listing;

struct ctl_nameset {
  uint64_t count, sum;
};

/* A share and the names it has. */
struct ctl_nameset_share {
  struct shard_share share;
  struct ctl_nameset owned;
};

/*
 * The whole listing into *whole, and what each of shares[count] has of it, by shard_share_owns().
 * Names below the directories inside[inside_count] are left out, and positions counted without
 * them: the shares' n must be the number of names that are left, or be 0 to be filled in (count 0).
 * 0 or a negative errno; -ESTALE if n is another.
 */
int ctl_nameset_sum(const struct shard_listing *listing, const char *const *inside,
                    size_t inside_count, struct ctl_nameset *whole,
                    struct ctl_nameset_share *shares, size_t count);

#endif
