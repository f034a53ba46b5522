/* SPDX-License-Identifier: MIT */
/* building.h - what commands that build or take listings share. */
#ifndef SHARD_CTL_BUILDING_H
#define SHARD_CTL_BUILDING_H

struct shard_build_means;
struct shard_listing;

/* Memory and temporary folder as the variables say. */
void ctl_building_means(struct shard_build_means *means);

/*
 * Open a listing and check every block of it. 0 and *out, to be closed; or a negative errno as of
 * shard_listing_open() and shard_listing_verify().
 */
int ctl_building_open_checked(const char *file, struct shard_listing **out);

#endif
