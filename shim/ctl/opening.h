/* SPDX-License-Identifier: MIT */
/* opening.h - what a command's operand names, opened: a listing, or what one can be made of. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct shard_listing;

/*
 * Open the listing `what`; or make one of the directory, the bucket (--start-after, --end-before
 * and --no-sign-request say which keys, and how) or the manifest `what`, in a temporary folder, and
 * open it: its file is gone afterwards. manifest: it is one, whatever its name. Where ranks share
 * the listing (--size of 2 or more), sets of files without --sample are an error, and tables are
 * left out, with a warning, as under the shard view. CTL_DONE and *out, to be closed; or another
 * status after a message.
 */
int ctl_opening(const char *what, bool manifest, struct shard_listing **out);

/* Warn that so many directories of `what` are tables, which its listing leaves out. */
void ctl_opening_warn_of_tables(const char *what, uint64_t tables);

/*
 * Open a listing and check every block of it. 0 and *out, to be closed; or a negative errno as of
 * shard_listing_open() and shard_listing_verify().
 */
int ctl_opening_checked(const char *file, struct shard_listing **out);
