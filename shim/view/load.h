/* SPDX-License-Identifier: MIT */
/*
 * load.h - the listings of the datasets, opened when a directory is first listed, and built before
 * that if there is none (cache/).
 *
 * A process, and a job, keeps its first listing: later names are not seen. An error is printed
 * once, and later calls return it again; after a lack of descriptors or memory they try again.
 * EACCES becomes EPERM: tree walkers take EACCES for the directory's own error, and go on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct shard_listing;
struct shard_view_dataset;

/* Opens d->listing unless it is open. Errors: a line was printed. */
int shard_load_listing(struct shard_view_dataset *d);

/*
 * Gets the listing of an epoch, where SHARD_LISTING has one for each (%e). It is never closed,
 * because no call tells when the last directory was read.
 * Errors: a line was printed.
 */
int shard_load_epoch_listing(struct shard_view_dataset *d, uint64_t epoch,
                             const struct shard_listing **out);

/*
 * Converts rc, an error of an open listing, to the reader's: damage, -EBADMSG, becomes -EIO, and a
 * line is printed, once.
 */
int shard_load_report_damage(const struct shard_listing *listing, int rc);
