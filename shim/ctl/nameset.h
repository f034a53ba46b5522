/* SPDX-License-Identifier: MIT */
/*
 * nameset.h - sets of names, compared by their number and by the sum, modulo 2^64, of their XXH64.
 *
 * Parts of a listing have each of its names once if their numbers and their sums add up to the
 * listing's. By chance that also happens in one case of 2^64.
 */
#pragma once

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
 * Sum up the whole listing, and what each of shares[count] owns of it (shard_share_owns()). Names
 * below the directories inside[inside_count] are left out, and positions are counted without them:
 * each share's n must be the number of names that are left; if there are no such directories, the
 * number of the listing's samples. 0 or a negative errno; -ESTALE if n is
 * another number.
 */
int ctl_nameset_sum(const struct shard_listing *listing, const char *const *inside,
                    size_t inside_count, struct ctl_nameset *whole,
                    struct ctl_nameset_share *shares, size_t count);
