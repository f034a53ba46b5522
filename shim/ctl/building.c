/* SPDX-License-Identifier: MIT */
#include "ctl/building.h"

#include "build/build.h"
#include "config/config.h"
#include "libshard.h"
#include "listing/listing.h"

void ctl_building_means(struct shard_build_means *means) {
  const struct shard_config *config = shard_config();
  *means =
      (struct shard_build_means){.memory = (size_t)config->build_memory, .tmpdir = config->tmpdir};
}

int ctl_building_open_checked(const char *file, struct shard_listing **out) {
  int rc = shard_listing_open(file, out);
  if (rc == 0 && (rc = shard_listing_verify(*out)) != 0) {
    shard_listing_close(*out);
  }
  return rc;
}
