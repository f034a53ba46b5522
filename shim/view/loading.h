/* SPDX-License-Identifier: MIT */
/*
 * loading.h - the listings of the datasets: opened when a directory is first listed, and built if
 * need be (cache/).
 *
 * A process keeps the listing it began with, and so does a job: names that came later are not seen.
 * An error is printed once, and later calls return it again; after a lack of descriptors or memory
 * they try again. EACCES becomes EPERM: walkers take EACCES for the directory's own, and go on.
 *
 * Thread-safe, fork-proof (once.h). 0, or a negative errno: then a message was printed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct shard_listing;
struct shard_view_dataset;

/* Have d->listing open. */
int shard_loading_have_listing(struct shard_view_dataset *d);

/*
 * The listing of an epoch, where SHARD_LISTING has one for each. It stays open, for nobody knows
 * when the last directory of it has been read.
 */
int shard_loading_have_edition(struct shard_view_dataset *d, uint64_t epoch,
                               const struct shard_listing **out);

/* What a reader gets for rc, an error in a listing that is open; damage (-EBADMSG) is told once. */
int shard_loading_report_damage(const struct shard_listing *listing, int rc);
