/* SPDX-License-Identifier: MIT */
/* open_listing.h - opens the operand of a command as a listing. */
#pragma once

#include <stdint.h>

struct shard_listing;

/*
 * Open a listing, or make a listing of a directory or bucket and open that.
 *
 * what: the path or URL. Of a bucket, ctl_args tells which keys, and whether requests are signed.
 * out: the listing, which the caller closes; a listing that was made has no file any more.
 * Returns an exit status, after a message if that is not CTL_DONE. Where ranks share the listing
 * (--size of 2 or more), sets of files without --sample are an error, and tables a warning, as
 * under the shard view.
 */
int ctl_open_listing(const char *what, struct shard_listing **out);

/* Warn that so many directories of `what` are tables, which its listing leaves out. */
void ctl_warn_of_tables(const char *what, uint64_t tables);

/*
 * Open a listing and check each block.
 *
 * out: the listing, which the caller closes.
 * Returns 0, or a negative errno of shard_listing_open() or shard_listing_verify().
 */
int ctl_open_verified(const char *file, struct shard_listing **out);
