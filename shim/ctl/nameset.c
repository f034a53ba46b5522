/* SPDX-License-Identifier: MIT */
#include "ctl/nameset.h"

#include <errno.h>
#include <string.h>

#include "base/xxh64.h"
#include "libshard.h"
#include "listing/samples.h"

static void add(struct ctl_nameset *set, uint64_t hash) {
  set->count++;
  set->sum += hash;
}

static bool lies_inside(const char *name, const char *const *inside, size_t count) {
  for (size_t i = 0; i < count; i++) {
    size_t n = strlen(inside[i]);
    if (strncmp(name, inside[i], n) == 0 && name[n] == '/') {
      return true;
    }
  }
  return false;
}

int ctl_nameset_sum(const struct shard_listing *listing, const char *const *inside,
                    size_t inside_count, struct ctl_nameset *whole,
                    struct ctl_nameset_share *shares, size_t count) {
  static struct shard_cursor cursor;
  const char *name;
  *whole = (struct ctl_nameset){0};
  for (size_t k = 0; k < count; k++) {
    shares[k].owned = (struct ctl_nameset){0};
  }
  ssize_t n;
  int rc = shard_listing_seek(&cursor, listing, 0);
  while (rc == 0 && (n = shard_listing_next(&cursor, &name)) != 0) {
    if (n < 0) {
      return (int)n;
    }
    if (lies_inside(name, inside, inside_count)) {
      continue;
    }
    uint64_t position = whole->count, hash = shard_xxh64(name, (size_t)n, 0);
    add(whole, hash);
    for (size_t k = 0; k < count; k++) {
      int64_t sample = inside_count ? (int64_t)position : shard_listing_sample(listing, position);
      if (sample < 0 || (uint64_t)sample >= shares[k].share.n) {
        return sample < 0 ? (int)sample : -ESTALE;
      }
      if (shard_share_owns(&shares[k].share, (uint64_t)sample)) {
        add(&shares[k].owned, hash);
      }
    }
  }
  uint64_t samples = inside_count ? whole->count : shard_listing_samples(listing);
  return rc == 0 && count > 0 && samples != shares[0].share.n ? -ESTALE : rc;
}
